// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(SwiftUI) && os(iOS)
import DeviceRelay
import SwiftUI

struct AccountView: View {
    @Bindable var sample: RomeSample
    let device: SampleDevice
    let newDevices: NewDevices

    var body: some View {
        NavigationStack {
            Form {
                Section(device.accountName ?? "Account") {
                    NoticeView(notice: device.connection)
                    if let notice = sample.notice { NoticeView(notice: notice) }
                    if device.needsSignIn {
                        if device.membership.way == .link {
                            TextField("New join link", text: $sample.link).accessibilityLabel("New join link")
                        }
                        Button("Sign in again") { sample.work.run("sign in") { await sample.signInAgain() } }
                    }
                }
                Section("Notifications") { NoticeView(notice: sample.push.notice) }
                Section("New devices") {
                    if let notice = newDevices.notice { NoticeView(notice: notice) }
                    ForEach(newDevices.endpoints) { endpoint in
                        VStack(alignment: .leading) {
                            Text(endpoint.deviceName).font(.headline)
                            Text("It must show: \(newDevices.words(of: endpoint))")
                            Button("Approve") { sample.work.run("decide") { await newDevices.approve(endpoint) } }
                            Button("Refuse", role: .destructive) { sample.work.run("decide") { await newDevices.refuse(endpoint) } }
                        }
                        .buttonStyle(.bordered)
                    }
                    LabeledContent("This device shows", value: newDevices.ownWords)
                    Button("Add a device") { sample.work.run("invite") { await newDevices.invite() } }
                    if let invitation = newDevices.invitation {
                        ShareLink("Share the link", item: invitation).accessibilityHint("Who has the link can join the account.")
                        Button("Hide the link") { newDevices.hideInvitation() }
                    }
                }
                Button("Sign out", role: .destructive) { sample.work.run("sign out") { await sample.signOut() } }
            }
            .navigationTitle("Account")
        }
    }
}
#endif
