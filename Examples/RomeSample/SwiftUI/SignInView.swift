// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(SwiftUI) && os(iOS)
import SwiftUI

struct SignInView: View {
    @Bindable var sample: RomeSample

    var body: some View {
        NavigationStack {
            Form {
                if let notice = sample.notice { NoticeView(notice: notice) }
                Section("With a link") {
                    TextField("Join link", text: $sample.link)
                        .textContentType(.URL)
                        .autocorrectionDisabled()
                        .textInputAutocapitalization(.never)
                        .accessibilityLabel("Join link")
                        .accessibilityHint("Another device or the relay's operator makes it. It works once, for ten minutes.")
                    Button("Join") { sample.work.run("sign in") { await sample.join() } }
                }
                Section("With a browser") {
                    TextField("https://relay.example", text: $sample.address)
                        .keyboardType(.URL)
                        .autocorrectionDisabled()
                        .textInputAutocapitalization(.never)
                        .accessibilityLabel("Address of the relay")
                    Button("Sign in") { sample.work.run("sign in") { await sample.signInWithBrowser() } }
                }
            }
            .disabled(sample.isSigningIn)
            .navigationTitle("Rome sample")
        }
    }
}
#endif
