// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// What an endpoint sees of its local network now, for diagnosis.
package struct NearbyView: Hashable, Sendable {
    /// Whether a known endpoint has direct paths.
    package let knowsPeers: Bool
    /// The names of the interfaces that are used.
    package let interfaces: [String]
    /// The number of instances of the service, besides this endpoint's own ones.
    package let instances: Int
    /// The known endpoints that these seem to be.
    package let known: Set<EndpointID>
    /// Known endpoints whose clocks say another hour, so that they are not recognised: how many hours each is ahead.
    package let otherHours: [EndpointID: Int]
    /// Whether this machine permits multicast DNS on an interface.
    package let isOpen: Bool
    /// Whether what is sent to everybody comes back; `nil` if that is not known.
    package let hearsItself: Bool?
}
