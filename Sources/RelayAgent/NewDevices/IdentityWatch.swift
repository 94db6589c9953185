// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Notifies the person when another way to sign in to the account is linked or removed, while the agent runs.
struct IdentityWatch: Sendable {
    let local: LocalDevice
    let desktop: DesktopNotifier
    let note: @Sendable (String) -> Void

    /// Runs until the task is cancelled.
    func run() async {
        await withDiscardingTaskGroup { group in
            for await change in local.platform.accounts.identityChanges(of: local.account) {
                let text = Self.text(change)
                note(text)
                // A notification waits for the person, and must not delay the next one.
                group.addTask { _ = await desktop.show("Sign-in of your account", text, actions: []) }
            }
            group.cancelAll()
        }
    }

    static func text(_ change: IdentityChange) -> String {
        let issuer = NewDeviceText.bounded(change.issuer)
        return switch change.kind {
        case .linked:
            "\(change.endpoint.map { "endpoint \($0.label)" } ?? "the relay's operator") linked another way to sign in to your account: "
                + "\(issuer). If it was not you, remove it on the account's page at the relay, and revoke that endpoint."
        case .removed: "a way to sign in was removed from your account: \(issuer)"
        }
    }
}
