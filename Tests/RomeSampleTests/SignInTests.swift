// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayTesting
import Testing

@testable import RomeSampleModel

/// Signing in and out at a real relay and its issuer.
@MainActor @Suite(.serialized, .timeLimit(.minutes(10))) struct SampleSignInTests {
    private func hasFile(_ phone: SampleBench.Phone) -> Bool {
        FileManager.default.fileExists(atPath: phone.directory.appending(path: "membership.json").path)
    }

    @Test func accountSurvivesARestart() async throws {
        try await withBench { bench in
            let phone = try await bench.joined("Phone")
            try await until { phone.sample.device?.accountName == "Anna" }
            #expect(phone.sample.link.isEmpty && hasFile(phone))
            await phone.sample.end()
            let again = bench.phone("Phone", in: phone.directory)
            // A push starts the app before its first screen.
            async let first: Void = again.sample.start()
            async let second: Void = again.sample.start()
            _ = await (first, second)
            let device = try #require(again.sample.device)
            try await until { device.connection.kind == .success && again.sample.hosting.notice.kind == .success }
            #expect(again.sample.question.account == nil)
            await again.sample.signOut()
            #expect(again.sample.device == nil && !hasFile(again) && again.sample.notice?.title == "Signed out")
        }
    }

    @Test func linksThatDoNotWorkSayWhy() async throws {
        try await withBench { bench in
            let phone = bench.phone("Phone")
            await phone.sample.start()
            for text in ["", "hello", "https://relay.example", "https://relay.example/#relay=x", "ftp://relay.example/#relay=x\u{0}"] {
                phone.sample.link = text
                await phone.sample.join()
                #expect(phone.sample.notice?.kind == .problem && phone.sample.notice?.reason.isEmpty == false, "\(text.debugDescription)")
                #expect(phone.sample.device == nil && !hasFile(phone))
            }
            // A link works once.
            let link = try await bench.link()
            try await bench.join(bench.phone("Other"), link)
            phone.sample.link = link
            await phone.sample.join()
            #expect(phone.sample.notice?.code == "linkInvalid", "\(String(describing: phone.sample.notice))")
            #expect(phone.sample.notice?.nextStep.contains("new link") == true && !hasFile(phone))
            try await bench.join(phone, try await bench.link())
        }
    }

    @Test func personDeclinesTheAccount() async throws {
        try await withBench { bench in
            let phone = bench.phone("Phone")
            await phone.sample.start()
            phone.sample.link = try await bench.link()
            async let joining: Void = phone.sample.join()
            try await until { phone.sample.question.account != nil }
            #expect(phone.sample.question.title == "Join the account Anna?")
            phone.sample.question.answer(false)
            await joining
            #expect(phone.sample.notice?.code == "accountNotConfirmed" && phone.sample.device == nil && !hasFile(phone))
            #expect(phone.sample.question.account == nil)
        }
    }

    @Test func browserSignsIn() async throws {
        try await withBench { bench in
            let browser = SignInBrowser(origin: bench.relayd.origin)
            try await browser.setUp(try await bench.relayd.run("account", "set-up", "Anna"))
            let id = try JoinLink(parsing: try await bench.link(), plainHTTP: .allowed).relay
            let decisions = Decisions(["deny", "allow"])
            let phone = bench.phone("Phone") { url in
                let location = try await browser.decide(app: url, await decisions.next())
                // The page stays open until the sign-in has ended, as on a phone.
                _ = try await SignInBrowser.request("GET", location)
                try await Task.sleep(for: .seconds(600))
            }
            await phone.sample.start()
            phone.sample.address = bench.relayd.origin + "/#relay=\(id)"
            await phone.sample.signInWithBrowser()
            #expect(phone.sample.notice?.title == "Sign-in refused", "\(String(describing: phone.sample.notice))")
            #expect(phone.sample.notice?.nextStep.isEmpty == false && phone.sample.device == nil && !hasFile(phone))
            await bench.confirming(phone) { await phone.sample.signInWithBrowser() }
            #expect(phone.sample.device != nil, "\(String(describing: phone.sample.notice))")
        }
    }

    @Test func closedPageEndsTheSignIn() async throws {
        try await withBench { bench in
            let id = try JoinLink(parsing: try await bench.link(), plainHTTP: .allowed).relay
            let phone = bench.phone("Phone")  // its page closes at once
            await phone.sample.start()
            phone.sample.address = bench.relayd.origin + "/#relay=\(id)"
            await phone.sample.signInWithBrowser()
            #expect(phone.sample.device == nil && phone.sample.notice?.kind == .problem && !phone.sample.isSigningIn)
            phone.sample.address = "not an address"
            await phone.sample.signInWithBrowser()
            #expect(phone.sample.notice?.nextStep == "Correct the address.")
        }
    }

    @Test func newDeviceIsApproved() async throws {
        try await withBench { bench in
            let tv = try await bench.joined("TV")
            let phone = try await bench.joined("Phone")
            let devices = try #require(tv.sample.device?.newDevices)
            try await until { devices.endpoints.map(\.deviceName) == ["Phone"] }
            let endpoint = try #require(devices.endpoints.first)
            #expect(devices.words(of: endpoint) == phone.sample.device?.newDevices.ownWords && !devices.words(of: endpoint).isEmpty)
            let launching = try await phone.launching(on: "TV", "romesample:secret")
            await launching.launch()
            #expect(launching.notice?.title == "Declined on TV", "\(String(describing: launching.notice))")
            await devices.approve(endpoint)
            #expect(devices.notice?.title == "Phone is approved")
            try await until { devices.endpoints.isEmpty }
            await launching.launch()
            #expect(launching.notice?.title == "Opened on TV", "\(String(describing: launching.notice))")
        }
    }

    @Test func refusedDeviceIsOut() async throws {
        try await withBench { bench in
            let tv = try await bench.joined("TV")
            let phone = try await bench.joined("Phone")
            let devices = try #require(tv.sample.device?.newDevices)
            try await until { !devices.endpoints.isEmpty }
            await devices.refuse(try #require(devices.endpoints.first))
            let device = try #require(phone.sample.device)
            try await until { device.connection.code == "endpointRevoked" }
            #expect(device.connection.kind == .problem && !device.connection.reason.isEmpty)
        }
    }
}

/// The decisions of a person, one after the other.
private actor Decisions {
    private var rest: [String]

    init(_ decisions: [String]) { rest = decisions }

    func next() -> String { rest.isEmpty ? "deny" : rest.removeFirst() }
}
