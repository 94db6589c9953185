// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation

// Built with the main actor as the default isolation, as apps with a user interface are.

// snippet: main-actor
final class DeviceList {
    var systems: [RemoteSystem] = []
    var nowPlaying: String?

    func watch(_ platform: ConnectedDevicesPlatform) async {
        for await systems in platform.remoteSystems().snapshots { self.systems = systems }
    }

    func player() -> RemoteSystemAppRegistration {
        RemoteSystemAppRegistration(
            appID: "com.example.player",
            launchHandler: LaunchHandler(schemes: ["https"]) { request in
                await self.play(request.uri.text)
                return .launched
            }
        )
    }

    func play(_ uri: String) { nowPlaying = uri }

    func askForPhotos(_ platform: ConnectedDevicesPlatform, on pc: RemoteSystem) async throws -> Int {
        let service = AppServiceInfo(name: "photos", appID: "com.example.photoshare")
        return try await platform.withAppService(service, on: .init(pc)) { photos in
            try await photos.send(["Type": "list"]).count
        }
    }
}
// end
