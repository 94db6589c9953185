// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(UIKit)
import DeviceRelay
import UIKit

/// The account: its state, push notifications, new devices, and the end.
final class AccountViewController: ListViewController {
    private let sample: RomeSample
    private let device: SampleDevice
    private var newDevices: NewDevices { device.newDevices }

    init(_ sample: RomeSample, _ device: SampleDevice) {
        (self.sample, self.device) = (sample, device)
        super.init(style: .insetGrouped)
        title = "Account"
        tabBarItem.image = UIImage(systemName: "person.crop.circle")
    }

    @available(*, unavailable) required init?(coder: NSCoder) { nil }

    override func content() -> [Part] {
        var account = rows(device.connection) + rows(sample.notice)
        if device.needsSignIn { account.append(Row(title: "Sign in again") { [weak self] in self?.signInAgain() }) }
        let endpoints = newDevices.endpoints.map { endpoint in
            Row(title: endpoint.deviceName, detail: "It must show: \(newDevices.words(of: endpoint)). Tap to decide") { [weak self] in
                self?.ask(endpoint)
            }
        }
        let others = [
            Row(title: "This device shows", detail: newDevices.ownWords), Row(title: "Add a device") { [weak self] in self?.invite() },
        ]
        return [
            Part(header: device.accountName, rows: account),
            Part(header: "Notifications", rows: rows(sample.push.notice)),
            Part(header: "New devices", rows: rows(newDevices.notice) + endpoints + others),
            Part(header: nil, rows: [Row(title: "Sign out") { [weak self] in self?.signOut() }]),
        ]
    }

    private func signOut() { sample.work.run("sign out") { [sample] in await sample.signOut() } }

    private func signInAgain() {
        guard device.membership.way == .link else { return signIn() }
        let alert = UIAlertController(title: "New join link", message: nil, preferredStyle: .alert)
        alert.addTextField { $0.accessibilityLabel = "Join link" }
        alert.addAction(
            UIAlertAction(title: "Sign in", style: .default) { [weak self, weak alert] _ in
                self?.sample.link = alert?.textFields?.first?.text ?? ""
                self?.signIn()
            }
        )
        alert.addAction(UIAlertAction(title: "Cancel", style: .cancel))
        present(alert, animated: true)
    }

    private func signIn() { sample.work.run("sign in") { [sample] in await sample.signInAgain() } }

    private func ask(_ endpoint: NewEndpoint) {
        let (newDevices, work) = (newDevices, work)
        let alert = UIAlertController(title: endpoint.deviceName, message: newDevices.words(of: endpoint), preferredStyle: .alert)
        alert.addAction(UIAlertAction(title: "Approve", style: .default) { _ in work.run("decide") { await newDevices.approve(endpoint) } })
        alert.addAction(
            UIAlertAction(title: "Refuse", style: .destructive) { _ in work.run("decide") { await newDevices.refuse(endpoint) } }
        )
        alert.addAction(UIAlertAction(title: "Later", style: .cancel))
        present(alert, animated: true)
    }

    private func invite() {
        work.run("invite") { [weak self, newDevices] in
            await newDevices.invite()
            guard let link = newDevices.invitation else { return }
            newDevices.hideInvitation()
            let share = UIActivityViewController(activityItems: [link], applicationActivities: nil)
            share.popoverPresentationController?.sourceView = self?.view
            self?.present(share, animated: true)
        }
    }
}
#endif
