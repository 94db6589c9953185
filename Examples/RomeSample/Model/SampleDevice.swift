// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Observation

/// This device in an account: the platform, and what the screens show of it.
@MainActor @Observable final class SampleDevice {
    let platform: ConnectedDevicesPlatform
    let account: ConnectedDevicesAccount
    let membership: Membership
    let devices: DeviceList
    let newDevices: NewDevices
    let sent: SentCommands
    private(set) var connection = Notice.progress("Connecting")
    /// Whether the login has ended, or another person's was used.
    private(set) var needsSignIn = false
    /// The account's name at the relay; `nil` until the relay has said it.
    private(set) var accountName: String?

    init(_ platform: ConnectedDevicesPlatform, _ account: ConnectedDevicesAccount, _ membership: Membership) {
        (self.platform, self.account, self.membership) = (platform, account, membership)
        devices = DeviceList(platform)
        newDevices = NewDevices(platform, account)
        sent = SentCommands(platform, account)
    }

    /// Follows the connection to the relay, until the task is cancelled or the account removed.
    func watchConnection() async {
        for await state in platform.connectionStates(for: account) {
            connection = Notice(state)
            needsSignIn = state.phase == .stopped && [.authenticationError, .accountNotConfirmed].contains(state.problem?.code)
            accountName = platform.accounts.name(of: account) ?? accountName
        }
    }

    func launching(_ target: LaunchTarget) -> Launching { Launching(target, on: platform) }
    func service(_ target: LaunchTarget) -> ServiceConnection { ServiceConnection(target, on: platform) }
}
