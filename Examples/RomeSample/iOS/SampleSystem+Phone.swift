// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(UIKit)
import DeviceRelay
import UIKit

extension SampleSystem {
    /// What the model needs of iOS.
    @MainActor static var phone: SampleSystem {
        let (name, isPad) = (UIDevice.current.name, UIDevice.current.userInterfaceIdiom == .pad)
        return SampleSystem(
            directory: .applicationSupportDirectory.appending(path: "RomeSample"),
            configure: { settings in
                settings.keyStorage = KeychainKeyStorage(service: SampleApp.id)
                settings.nearby.mode = .known
                settings.device.name = name
                settings.device.kind = isPad ? .tablet : .phone
                settings.device.manufacturer = "Apple"
            },
            showSignIn: { try await SignInSheet.show($0) },
            open: { await open($0) }
        )
    }

    /// iOS opens nothing while the app is in the background: the caller learns that it failed.
    @MainActor private static func open(_ uri: LaunchURI) async -> Bool {
        guard let url = URL(string: uri.text, encodingInvalidCharacters: false) else { return false }
        return await UIApplication.shared.open(url)
    }
}
#endif
