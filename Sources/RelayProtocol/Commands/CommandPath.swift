// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A way by which a command gets from its sender to its target.
package enum CommandPath: Hashable, Sendable {
    case relay
    /// A direct session with the other endpoint: the target's, at the sender, and the sender's, at the target.
    case direct(EndpointID)
}

/// Where the bytes of a command may be that its sender sends to the relay.
package enum CommandHistory: Hashable, Sendable {
    /// They were never sent.
    case new
    /// They may have been sent to the relay before.
    case sent
    /// The target may have them without the relay.
    case offered
    /// The target has them without the relay, and has told the sender so.
    case received

    /// Whether the target may have them without the relay.
    package var isOffered: Bool { self == .offered || self == .received }
}
