// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The version of the control channel's protocol that this package speaks. Both sides name theirs in `challenge` and `hello`.
package enum ProtocolVersion {
    package static let current = 1
}
