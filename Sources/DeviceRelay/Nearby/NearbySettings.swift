// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

/// How this device uses the local network.
public struct NearbySettings: Hashable, Sendable {
    /// Who on the local network may find this device.
    public enum Mode: String, Hashable, Sendable, CaseIterable, Codable {
        /// Nobody, and this device finds nobody there.
        case off
        /// The account's devices that this one knows. Others see that a device of this service is there, and not which.
        case known
        /// The devices of `known`. Also everyone on the network, for ten minutes after each call of
        /// `ConnectedDevicesPlatform.offerReception(_:)`. Only then does the device send its name.
        case visible
    }

    /// Who may find this device. Default: `off`. On Apple systems, all others need the local network entries in the app's `Info.plist`.
    public var mode = Mode.off
    /// The names of the network interfaces that are used. Default: all that are up and no loopback.
    public var interfaces: [String]?
    /// After so many days in which the relay has not listed the account's devices, this one does not know which of them were revoked since. Then
    /// those that connect directly may do what new ones may, and their launches and messages wait for the relay. Default: 30.
    public var trustDays = 30
    /// Which addresses known devices may have. Default: `local`.
    public var reach = NearbyReach.local

    /// Settings with the defaults.
    public init() {}
}
