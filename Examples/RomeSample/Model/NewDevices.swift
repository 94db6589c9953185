// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Observation

/// Devices that joined the account and that nobody has approved. Until then they may only launch web pages.
@MainActor @Observable final class NewDevices {
    private(set) var endpoints: [NewEndpoint] = []
    private(set) var notice: Notice?
    /// A link for one more device, for ten minutes. Who reads it can join: it is shown on demand only.
    private(set) var invitation: String?

    private let platform: ConnectedDevicesPlatform
    private let account: ConnectedDevicesAccount

    init(_ platform: ConnectedDevicesPlatform, _ account: ConnectedDevicesAccount) { (self.platform, self.account) = (platform, account) }

    /// Follows the new devices until the task is cancelled.
    func watch() async {
        for await endpoints in platform.newEndpoints(for: account) { self.endpoints = endpoints }
    }

    /// What a person compares with the new device, which shows the same words.
    func words(of endpoint: NewEndpoint) -> String { "\(endpoint.fingerprint)" }

    /// The words of this device, for the person at the other one.
    var ownWords: String { (try? platform.accounts.fingerprint(of: account)).flatMap { $0 }.map { "\($0)" } ?? "" }

    func approve(_ endpoint: NewEndpoint) async {
        await decide(endpoint, "approved") { (platform) async throws(AccountError) in try await platform.approve(endpoint) }
    }

    func refuse(_ endpoint: NewEndpoint) async {
        await decide(endpoint, "refused") { (platform) async throws(AccountError) in try await platform.refuse(endpoint) }
    }

    /// Makes a link for one more device, which all devices then know.
    func invite() async {
        do throws(AccountError) {
            (invitation, notice) = (try await platform.accounts.invite(to: account).text, nil)
        } catch {
            (invitation, notice) = (nil, Notice(error))
        }
    }

    func hideInvitation() { invitation = nil }

    private func decide(
        _ endpoint: NewEndpoint,
        _ word: String,
        _ decision: (ConnectedDevicesPlatform) async throws(AccountError) -> Void
    ) async {
        do throws(AccountError) {
            try await decision(platform)
            notice = .success("\(endpoint.deviceName) is \(word)")
        } catch {
            notice = .problem(
                "\(endpoint.deviceName) is not \(word)",
                ShownText.clean(error.message),
                nextStep: "Try again.",
                code: "\(error.code)"
            )
        }
    }
}
