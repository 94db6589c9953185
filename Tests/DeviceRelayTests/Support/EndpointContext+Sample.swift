// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOPosix

@testable import DeviceRelay
@testable import RelayProtocol

extension EndpointContext {
    /// An endpoint of the account `me`, with its keys and journal in a directory. Another one with the same directory is the endpoint's
    /// next process.
    /// - Parameters:
    ///   - relay: The URL of the relay. Nothing listens at the default.
    ///   - change: Changes the settings.
    static func sample(
        _ directory: TemporaryDirectory,
        relay: String = "http://127.0.0.1:1",
        id: RelayID = AccountScope.sample().relay,
        _ change: (inout ConnectedDevicesPlatformSettings) -> Void = { _ in }
    ) throws -> EndpointContext {
        var settings = ConnectedDevicesPlatformSettings(
            relay: URL(string: relay) ?? URL(filePath: "/"),
            storageDirectory: URL(filePath: directory.path),
            device: DeviceDescription(name: "Device", kind: .desktop, platform: .linux)
        )
        settings.systemKey = SystemKeyFile(path: "\(directory.path)/system.key")
        change(&settings)
        return try EndpointContext(
            ConnectedDevicesAccount(id: "me"),
            try directory.storage().open(AccountScope(relay: id, accountID: "me"), now: 0),
            settings,
            StaticAccessTokenProvider(AccessToken("token")),
            on: MultiThreadedEventLoopGroup.singleton.next()
        )
    }
}
