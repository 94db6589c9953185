// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The version of the control channel's protocol that this package implements. The relay sends its version in `challenge`, the endpoint in
/// `hello`.
package enum ProtocolVersion {
    package static let current = 1
}
