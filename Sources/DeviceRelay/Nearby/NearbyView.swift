// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// What an endpoint sees of its local network now, for diagnosis.
package struct NearbyView: Hashable, Sendable {
    /// The names of the interfaces that are used.
    package let interfaces: [String]
    /// The number of instances of the service, this endpoint's own ones included.
    package let instances: Int
    /// The known endpoints that these seem to be.
    package let known: Set<EndpointID>
    /// Whether what is sent to everybody comes back; `nil` if that is not known.
    package let hearsItself: Bool?
}
