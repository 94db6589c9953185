// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(SwiftUI) && os(iOS)
import SwiftUI

/// Launching on a device or an app, and messages to the services of this sample.
struct TargetView: View {
    @State var launching: Launching
    @State var service: ServiceConnection
    /// The tasks end with the screen. A launch goes on without its task.
    @State private var work = Work()

    var body: some View {
        Form {
            Section("Launch on \(launching.target.deviceName)") {
                TextField("Address", text: $launching.uri)
                    .keyboardType(.URL)
                    .autocorrectionDisabled()
                    .textInputAutocapitalization(.never)
                    .accessibilityLabel("Address to launch")
                TextField("Fallback address", text: $launching.fallback)
                    .keyboardType(.URL)
                    .autocorrectionDisabled()
                    .textInputAutocapitalization(.never)
                    .accessibilityLabel("Fallback address")
                    .accessibilityHint("Opened if no app there takes the address.")
                Stepper("May wait \(launching.minutes) minutes", value: $launching.minutes, in: 1...1_440, step: 5)
                Button("Launch") { work.run("launch") { await launching.launch() } }
                if let notice = launching.notice { NoticeView(notice: notice) }
                if launching.isRunning { Button("Cancel the launch") { work.run("cancel") { await launching.cancel() } } }
            }
            if service.target.hasServices {
                Section("App service") {
                    NoticeView(notice: service.state)
                    if service.isConnected {
                        Button("Send a ping") { work.run("ping") { await service.ping() } }
                        Button("Disconnect") { service.disconnect() }
                    } else {
                        Button("Connect") { work.run("connect") { await service.connect() } }
                    }
                    TextField("Text", text: $service.text).accessibilityLabel("Text of the message")
                    Button("Send a message that waits") { work.run("message") { await service.sendText() } }
                    if let answer = service.answer { NoticeView(notice: answer) }
                }
            }
        }
        .navigationTitle(launching.target.name)
        .onDisappear { work.cancelAll() }
    }
}
#endif
