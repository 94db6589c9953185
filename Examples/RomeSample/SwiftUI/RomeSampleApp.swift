// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(SwiftUI) && os(iOS)
import SwiftUI

@main struct RomeSampleApp: App {
    @UIApplicationDelegateAdaptor private var delegate: SampleDelegate

    var body: some Scene {
        WindowGroup { RootView(sample: delegate.sample) }
    }
}

struct RootView: View {
    @Bindable var sample: RomeSample

    var body: some View {
        Group {
            switch sample.phase {
            case .starting: ProgressView("Starting")
            case .signedOut: SignInView(sample: sample)
            case .signedIn(let device): HomeView(sample: sample, device: device)
            }
        }
        .alert(sample.question.title, isPresented: .constant(sample.question.account != nil)) {
            Button("Join") { sample.question.answer(true) }
            Button("Do not join", role: .cancel) { sample.question.answer(false) }
        } message: {
            Text("Its devices and this one can then open addresses on each other.")
        }
    }
}

struct HomeView: View {
    let sample: RomeSample
    let device: SampleDevice

    var body: some View {
        TabView {
            Tab("Devices", systemImage: "laptopcomputer.and.iphone") { DevicesView(device: device, list: device.devices) }
            Tab("Sent", systemImage: "paperplane") { SentView(sample: sample, sent: device.sent) }
            Tab("Hosting", systemImage: "tray.and.arrow.down") { HostingView(hosting: sample.hosting) }
            Tab("Account", systemImage: "person.crop.circle") {
                AccountView(sample: sample, device: device, newDevices: device.newDevices)
            }
        }
    }
}
#endif
