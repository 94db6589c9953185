// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Observation

/// Hands the token of Apple's push service to the platform, and says whether the relay can wake this device. Without a token, or at a relay
/// without a push credential of this app, the device asks the relay itself at an interval: the original's type `Polling`.
@MainActor @Observable final class PushHandover {
    /// What has arrived from the system.
    enum Token: Hashable {
        case none
        /// In hexadecimal.
        case apns(String, isSandbox: Bool)
    }

    private(set) var notice = Notice.progress("No push token yet")
    private(set) var token = Token.none
    /// Whether the person allows alerts: without them an urgent push shows nothing.
    private(set) var showsAlerts = true

    /// - Parameter isSandbox: Whether Xcode installed this build: a token works in its own environment only.
    func tokenArrived(_ bytes: some Sequence<UInt8>, isSandbox: Bool) {
        let text = bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        token = .apns(text, isSandbox: isSandbox)
    }

    /// The system gives no token, as on a simulator without one.
    func tokenFailed() { token = .none }

    func alertsDecided(_ allowed: Bool) { showsAlerts = allowed }

    /// Registers what is there, and falls back to polling. It is called at each start, and whenever the token changes.
    func register(on platform: ConnectedDevicesPlatform, for account: ConnectedDevicesAccount) async {
        do throws(NotificationRegistrationError) {
            guard case .apns(let text, let isSandbox) = token else {
                try await register(.polling, "", platform, account)
                notice = .success("This device looks in every 15 minutes", "There is no push token. iOS may stop the app in between.")
                return
            }
            try await register(isSandbox ? .apnsSandbox : .apns, text, platform, account)
            notice =
                showsAlerts
                ? .success("The relay can wake this device")
                : .problem(
                    "A launch shows no alert",
                    "The relay can wake this device, but alerts are off.",
                    nextStep: "Allow alerts in Settings."
                )
        } catch {
            notice = Notice(error)
            guard error.code == .notSupported else { return }
            try? await register(.polling, "", platform, account)
            notice.reason += " It looks in every 15 minutes, unless iOS stops the app."
        }
    }

    /// Follows what the relay says of the registration, until the task is cancelled.
    func watch(_ platform: ConnectedDevicesPlatform, for account: ConnectedDevicesAccount) async {
        for await state in platform.notifications.stateChanges(for: account) {
            guard state == .expiring || state == .expired else { continue }
            notice = .problem("The push token has expired", "", nextStep: "Open the app again.", code: state.rawValue)
        }
    }

    private func register(
        _ type: NotificationType,
        _ token: String,
        _ platform: ConnectedDevicesPlatform,
        _ account: ConnectedDevicesAccount
    ) async throws(NotificationRegistrationError) {
        let registration = NotificationRegistration(type: type, token: token, appID: SampleApp.id, displayName: SampleApp.name)
        try await platform.notifications.register(registration, for: account)
    }
}
