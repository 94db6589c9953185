// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Observation

/// The app, in the order of the original's guides: platform, account, push registration, hosted app, devices.
@MainActor @Observable final class RomeSample {
    enum Phase {
        case starting
        case signedOut
        case signedIn(SampleDevice)
    }

    private(set) var phase = Phase.starting
    /// Why the app is not signed in, or what the last sign-in or sign-out led to.
    private(set) var notice: Notice?
    private(set) var isSigningIn = false
    /// The fields of the sign-in screen.
    var link = ""
    var address = ""
    let question = AccountQuestion()
    let hosting: Hosting
    let push = PushHandover()
    /// The tasks of the buttons.
    let work = Work()

    @ObservationIgnored private let system: SampleSystem
    @ObservationIgnored private let file: MembershipFile
    /// The first start.
    @ObservationIgnored private var starting: Task<Void, Never>?
    /// The tasks of the account.
    @ObservationIgnored private let accountWork = Work()

    init(_ system: SampleSystem) {
        self.system = system
        file = MembershipFile(in: system.directory)
        hosting = Hosting(system)
    }

    /// This device in its account; `nil` while it is signed out.
    var device: SampleDevice? {
        if case .signedIn(let device) = phase { device } else { nil }
    }

    // MARK: Start and end

    /// Starts the platform of the stored account. Later calls have no effect, but wait for the first one.
    func start() async {
        let task = starting ?? Task { await openStored() }  // Owner: `starting`
        starting = task
        await task.value
    }

    private func openStored() async {
        guard let membership = file.read() else { return phase = .signedOut }
        do throws(PlatformError) {
            let platform = try await open(membership)
            guard platform.accounts.all.contains(SampleApp.account) else {
                // An earlier sign-in was interrupted.
                await platform.shutdown()
                file.remove()
                return phase = .signedOut
            }
            enter(SampleDevice(platform, SampleApp.account, membership))
        } catch {
            (phase, notice) = (.signedOut, Notice(error))
        }
    }

    /// The app goes to the background. It returns within seconds.
    func suspend() async { await device?.platform.suspend() }

    /// The app is in front again.
    func resume() async { await device?.platform.resume() }

    /// The app ends. A launch that waits goes on at the relay.
    func end() async {
        let platform = device?.platform
        leave()
        await platform?.shutdown()
    }

    // MARK: Signing in and out

    /// Joins the account of the link in `link`.
    func join() async {
        do throws(JoinLinkError) {
            // Plain HTTP to another machine is refused by the platform's settings.
            let link = try JoinLink(parsing: link, plainHTTP: .allowed)
            do throws(AddressError) {
                await signIn(try Membership(link), link)
            } catch {
                notice = .problem("Not signed in", error.reason, nextStep: "Ask for a new link.")
            }
        } catch {
            notice = .problem("Not signed in", "\(error)", nextStep: "Copy the whole link, and try again.")
        }
    }

    /// Signs in at the relay in `address`, with a browser on this device.
    func signInWithBrowser() async {
        do throws(AddressError) {
            await signIn(try Membership(address: address), nil)
        } catch {
            notice = .problem("Not signed in", error.reason, nextStep: "Correct the address.")
        }
    }

    /// Signs in again after the login has ended. An account that came by a link needs a new one, in `link`.
    func signInAgain() async {
        guard let device, !isSigningIn else { return }
        (isSigningIn, notice) = (true, .progress("Signing in"))
        defer { isSigningIn = false }
        do throws(AccountError) {
            let link = device.membership.way == .link ? try? JoinLink(parsing: link, plainHTTP: .allowed) : nil
            try await device.platform.accounts.add(device.account, joining: link)
            (notice, self.link) = (nil, "")
        } catch {
            notice = Notice(error)
        }
    }

    /// Removes the account: the other devices refuse this one from now on.
    func signOut() async {
        guard let device, !isSigningIn else { return }
        do throws(AccountError) {
            let isRevoked = try await device.platform.accounts.remove(device.account)
            notice =
                isRevoked
                ? .success("Signed out")
                : .problem(
                    "Signed out on this device only",
                    "The relay was not reached, so the other devices still list this one.",
                    nextStep: "Revoke it on another device."
                )
        } catch {
            notice = Notice(error)
        }
        file.remove()
        await end()
    }

    private func signIn(_ membership: Membership, _ link: JoinLink?) async {
        guard device == nil, !isSigningIn else { return }
        (isSigningIn, notice) = (true, .progress("Signing in"))
        defer { isSigningIn = false }
        let platform: ConnectedDevicesPlatform
        do throws(PlatformError) {
            platform = try await open(membership)
        } catch {
            return notice = Notice(error)
        }
        do {
            // Before the link is used up: without the file the app would not find its relay again.
            try file.write(membership)
            try await platform.accounts.add(SampleApp.account, joining: link)
            (self.link, notice) = ("", nil)
            enter(SampleDevice(platform, SampleApp.account, membership))
        } catch {
            await platform.shutdown()
            file.remove()
            notice = (error as? AccountError).map { Notice($0) } ?? .problem("Not signed in", "The storage of this app is not usable.")
        }
    }

    /// Makes the platform and starts it. What waits for this device finds its handlers, because they are set before the start.
    private func open(_ membership: Membership) async throws(PlatformError) -> ConnectedDevicesPlatform {
        var settings = membership.settings(system)
        let question = question
        settings.confirmsAccount = { await question.ask($0) }
        let platform = ConnectedDevicesPlatform(settings: settings, accessTokens: tokens(membership.way))
        do throws(PublishError) {
            try platform.host(hosting.registration, for: SampleApp.account)
        } catch {
            notice = Notice(error)
        }
        try await platform.start()
        return platform
    }

    private func tokens(_ way: Membership.Way) -> any AccessTokenProvider {
        switch way {
        case .link: JoinLinkAccessTokenProvider(clientID: SampleApp.id)
        case .browser:
            BrowserAccessTokenProvider(registeringAs: SampleApp.name) { [weak self, system] url in
                // A login that has ended must not open a page by itself: the person taps Sign in again first.
                guard await self?.isSigningIn ?? false else { throw CancellationError() }
                try await system.showSignIn(url)
            }
        }
    }

    private func enter(_ device: SampleDevice) {
        phase = .signedIn(device)
        accountWork.run("connection") { await device.watchConnection() }
        accountWork.run("new devices") { await device.newDevices.watch() }
        accountWork.run("publish") { [hosting, push, accountWork] in
            await hosting.publish(on: device.platform, for: device.account)
            await push.register(on: device.platform, for: device.account)
            accountWork.run("push") { await push.watch(device.platform, for: device.account) }
        }
    }

    private func leave() {
        accountWork.cancelAll()
        phase = .signedOut
    }

    // MARK: Notifications

    /// Apple's push service gave a token, at the start or a new one.
    func tokenArrived(_ token: some Sequence<UInt8>, isSandbox: Bool) async {
        push.tokenArrived(token, isSandbox: isSandbox)
        if let device { await push.register(on: device.platform, for: device.account) }
    }

    /// A push notification arrived, perhaps before the app has started.
    /// - Returns: Whether it was from a relay, and everything that waited was handled.
    func received(_ notification: ConnectedDevicesNotification?) async -> Bool {
        guard let notification else { return false }
        await start()
        return await device?.platform.process(notification) ?? false
    }
}
