// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The accounts whose due rows a node works on.
package enum AccountScope: Hashable, Sendable {
    /// The node is the only one.
    case all
    /// The accounts that the node serves, and its part, from 0, of those that nobody serves.
    case node(NodeID, part: Int, of: Int)
}
