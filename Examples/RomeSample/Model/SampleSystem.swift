// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation

/// What the model needs of the operating system. The files in `iOS` fill it in. Tests give it what they observe.
struct SampleSystem: Sendable {
    /// A directory of this app alone, for keys, tokens and commands.
    var directory: URL
    /// Changes the settings of the platform before it starts: where keys are, how others see this device, the local network.
    var configure: @Sendable (inout ConnectedDevicesPlatformSettings) -> Void = { _ in }
    /// Shows the issuer's page, and returns when the page is closed. A throw ends the sign-in.
    var showSignIn: @Sendable (URL) async throws -> Void
    /// Opens a URI that another device sent.
    /// - Returns: Whether an app has taken it.
    var open: @Sendable (LaunchURI) async -> Bool
}
