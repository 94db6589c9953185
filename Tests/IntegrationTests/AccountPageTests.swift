// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOHTTP1
import RelayProtocol
import RelayTesting
import Testing

/// The owner of an account uses the issuer's pages while devices are connected.
@Suite(.timeLimit(.minutes(10))) struct AccountPageTests {
    /// A browser that keeps the last page.
    private final class Browser {
        private let browser: SignInBrowser
        private(set) var page = ""

        init(_ home: TestHome) { browser = SignInBrowser(origin: home.relayd.origin) }

        @discardableResult
        func send(_ method: HTTPMethod, _ path: String, _ fields: [String: String] = [:]) async throws -> Int {
            let answer = method == .POST ? try await browser.post(path, fields) : try await browser.get(path)
            if answer.status < 300 { page = answer.text }
            return answer.status
        }

        /// Signs in by a link of the operator.
        func setUp(_ home: TestHome) async throws {
            let link = try await home.relayd.run("account", "set-up", "Anna").trimmingCharacters(in: .whitespacesAndNewlines)
            let path = String(link.dropFirst(home.relayd.origin.count))
            #expect(try await send(.GET, path) == 303)
            #expect(try await send(.GET, "/auth/setup") == 200)
            #expect(try await send(.POST, "/auth/setup", ["password": password, "repeated": password]) == 303)
            #expect(try await send(.GET, "/auth/account") == 200)
        }

        let password = "correct horse battery"
    }

    @Test func revokedDeviceLosesItsChannelTunnelAndSession() async throws {
        let home = try await TestHome()
        let pc = try await home.device("PC")
        try await pc.platform.publish(SessionTestApp.app(), for: pc.account)
        for await endpoints in pc.platform.newEndpoints(for: pc.account) where endpoints.isEmpty { break }
        let phone = try await home.device("Phone")
        for await endpoints in pc.platform.newEndpoints(for: pc.account) {
            guard let new = endpoints.first else { continue }
            try await pc.platform.approve(new)
            break
        }
        let id = try pc.id
        try await phone.sees("PC") { !$0.apps.isEmpty }
        let connection = try await phone.platform.open("echo", on: id)
        _ = try await connection.send(["N": 1])
        let browser = Browser(home)
        try await browser.setUp(home)
        #expect(browser.page.contains("Phone") && browser.page.contains("PC"))
        let phoneID = try phone.id
        #expect(try await browser.send(.POST, "/auth/account/device", ["endpoint": "\(phoneID)", "confirmed": "yes"]) == 303)
        // The events come without any further action.
        for await state in phone.platform.connectionStates(for: phone.account) where state.problem?.code == .endpointRevoked { break }
        _ = try await connection.closed
        await #expect(throws: AppServiceError.self) { _ = try await connection.send(["N": 2]) }
        #expect(try await browser.send(.GET, "/auth/account") == 200)
        #expect(!browser.page.contains("\(phoneID)"))
        for device in [pc, phone] { await device.platform.shutdown() }
    }

    /// As monitors and link checkers ask.
    @Test func headIsAnsweredLikeGet() async throws {
        let home = try await TestHome(accounts: [])
        let places = [
            "/auth/login", "/auth/account", "/auth/device", "/auth/authorize", "/auth/style.css", "/auth/jwks",
            "/auth/.well-known/openid-configuration", "/.well-known/oauth-protected-resource", "/healthz", "/no-such-page",
        ]
        for place in places {
            let get = try await SignInBrowser.request("GET", home.relayd.origin + place)
            let head = try await SignInBrowser.request("HEAD", home.relayd.origin + place)
            #expect(head.status == get.status && head.text.isEmpty, "\(place)")
            for name in ["content-type", "content-length", "location", "content-security-policy"] {
                // Each visit has a key of its own.
                let values = [head, get].map { page in
                    page.headers.first { $0.name == name }?.value.replacing(/\/at\/[A-Za-z0-9_-]{22}\//, with: "/at/KEY/")
                }
                #expect(values[0] == values[1], "\(place): \(name)")
            }
        }
    }

    @Test func deletedAccountDisconnectsItsDevices() async throws {
        let home = try await TestHome(accounts: ["Anna", "Bert"])
        let (pc, other) = (try await home.device("PC"), try await home.device("Other", of: "Bert"))
        for device in [pc, other] { try await device.connected() }
        let browser = Browser(home)
        try await browser.setUp(home)
        #expect(try await browser.send(.GET, "/auth/account/remove") == 200)
        #expect(try await browser.send(.POST, "/auth/account/remove", ["password": "wrong", "confirmed": "yes"]) == 401)
        #expect(try await browser.send(.POST, "/auth/account/remove", ["password": browser.password, "confirmed": "yes"]) == 200)
        #expect(browser.page.contains("The account is deleted"))
        for await state in pc.platform.connectionStates(for: pc.account) where state.phase == .stopped { break }
        #expect(try await browser.send(.GET, "/auth/account") == 303)
        let accounts = try await home.relayd.run("account", "list")
        #expect(!accounts.contains("Anna") && accounts.contains("Bert"))
        try await other.connected()
        for device in [pc, other] { await device.platform.shutdown() }
    }
}
