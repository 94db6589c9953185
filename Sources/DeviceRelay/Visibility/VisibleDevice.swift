// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

/// A device on this network that a person has made visible. Everything about it is its own statement, which nothing proves.
public struct VisibleDevice: Hashable, Sendable, Identifiable {
    /// What a device was made visible for.
    public enum Mode: String, Hashable, Sendable, CaseIterable {
        /// To be paired: `ConnectedDevicesPlatform.pair(with:by:)`.
        case pair
        /// To receive from strangers: `NearShareSender.send(_:to:patience:)`.
        case receive
    }

    /// Names what was seen. It changes each time a device is made visible.
    public let id: String
    /// The name that it gives itself.
    public let name: String
    /// The kind of device, as it says.
    public let kind: RemoteSystemKind
    /// What it was made visible for.
    public let mode: Mode
    /// Where it may be reached.
    let candidates: [NearbyPeers.Candidate]
    /// The names of the interfaces on which it was seen.
    package let interfaces: [String]
    /// Whether another process of this machine says so.
    package let isOnThisMachine: Bool

    package var addresses: [IPAddress] { candidates.map(\.address) }

    func at(_ candidates: [NearbyPeers.Candidate], _ interfaces: [String]) -> VisibleDevice {
        VisibleDevice(
            id: id,
            name: name,
            kind: kind,
            mode: mode,
            candidates: candidates,
            interfaces: interfaces,
            isOnThisMachine: isOnThisMachine
        )
    }
}
