// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayIssuer

/// Attackers with several addresses.
@Suite struct CrowdAttackTests {
    let test: TestIssuer

    init() throws { self.test = try TestIssuer() }

    /// The number of failures after which an address waits.
    static let free = 20

    @Test func knownBrowsersHavePlacesOfTheirOwnAndTakeTurns() {
        var queue = PasswordHasher.Queue<String>(running: 2, places: 8, placesPerClient: 2)
        let attackers = (0..<4).map { PasswordHasher.Client(name: "\($0)") }
        for attacker in attackers + attackers where queue.start(attacker) == false { queue.wait(attacker.name, of: attacker) }
        #expect(queue.start(.init(name: "new")) == nil)
        let owner = PasswordHasher.Client(name: "owner", isKnown: true)
        #expect(queue.start(owner) == false)
        queue.wait("owner", of: owner)
        #expect(queue.leave(attackers[0]) == "owner")
        // A known client has no more than its own places, and does not keep new ones waiting.
        #expect(queue.start(owner) == false)
        queue.wait("owner", of: owner)
        #expect(queue.start(owner) == nil)
        #expect(queue.leave(owner) == attackers[2].name)
        #expect(queue.leave(attackers[2]) == "owner")
    }

    @Test func addressesThatGuessDoNotStopTheOwner() async throws {
        let subject = try await test.ada()
        try await test.issuer.setPassword(subject: subject, to: Secret(TestBrowser.password))
        let issuer = try test.make(passwordAttemptsPerHour: 11)
        try await test.browse(issuer) { client in
            let owner = TestBrowser(client)
            let first = try await owner.signIn()
            #expect(first.status == 303)
            for number in 0..<8 {
                let attacker = TestBrowser(client, address: "203.0.113.\(number)")
                for attempt in 0..<Self.free {
                    // Ten of them are for the account. With the owner's own sign-in, that is its limit.
                    let name = number < 5 && attempt < 2 ? "Ada" : "name \(number) \(attempt)"
                    let page = try await attacker.signIn(name: name, password: "a wrong password")
                    #expect(page.status == 401)
                }
                // It is refused before the hash, for every name.
                for name in ["Ada", "Eve"] {
                    let page = try await attacker.signIn(name: name)
                    #expect(page.status == 429, "\(name)")
                }
            }
            // New browsers wait for the account, the known one does not, even at another address.
            #expect(try await TestBrowser(client, address: "192.0.2.9").signIn().status == 429)
            let again = TestBrowser(client, address: "203.0.113.1")
            again.cookies = owner.cookies.filter { $0.key == "__Host-relay-known" }
            #expect(try await again.signIn().status == 303)
        }
        try issuer.close()
    }

    /// The cookie of a known browser is for its own user, and its guesses are limited as others are.
    @Test func knownBrowserMayNotGuess() async throws {
        let subject = try await test.ada()
        try await test.issuer.setPassword(subject: subject, to: Secret(TestBrowser.password))
        let eve = try await test.issuer.createUser(name: "Eve")
        try await test.issuer.setPassword(subject: eve, to: Secret(TestBrowser.password))
        try await test.browse { client in
            let attacker = TestBrowser(client)
            let own = try await attacker.signIn(name: "Eve")
            #expect(own.status == 303)
            let cookies = attacker.cookies.filter { $0.key == "__Host-relay-known" }
            for number in 0..<AttemptLimit.free {
                let other = TestBrowser(client)
                other.cookies = cookies
                #expect(try await other.signIn(password: "guess number \(number)").status == 401)
            }
            let other = TestBrowser(client)
            other.cookies = cookies
            #expect(try await other.signIn().status == 429)
            for number in 0..<AttemptLimit.free {
                let thief = TestBrowser(client, address: "203.0.113.\(number)")
                thief.cookies = cookies
                #expect(try await thief.signIn(name: "Eve", password: "guess number \(number)").status == 401)
            }
            let thief = TestBrowser(client, address: "203.0.113.99")
            thief.cookies = cookies
            #expect(try await thief.signIn(name: "Eve").status == 429)
        }
    }

    /// 1,000 clients of 50 addresses register, and each of the addresses asks for as many devices as it may.
    @Test func registrationsAndWaitingDevicesStopNobody() async throws {
        try await test.browse { client in
            for number in 0..<1_000 {
                let app = TestApp(client, address: "203.0.113.\(number % 50)")
                #expect(try await app.register(#"{"redirect_uris": ["\#(TestApp.redirect)"], "client_name": "\#(number)"}"#).status == 201)
            }
            let issuer = try test.issuer
            let now = test.now
            // As many as may wait, of 334 addresses.
            try await issuer.store.write { records in
                for number in 0..<DeviceAuthorization.maximum {
                    try records.insert(Self.waiting(now), from: ClientNetworks(["198.51.\(number / 30).1", "198.51.\(number / 30 / 32)"]))
                }
            }
            let browser = TestBrowser(client)
            try await browser.setUp(test)
            let app = try await TestApp(registeredAt: client)
            let code = try #require(try await app.decide(browser)["code"])
            #expect(try await app.redeem(code, test).status == 200)
            let device = TestApp(client, address: "192.0.2.7")
            let begun = try await device.post("/device_authorization", DeviceGrantRouteTests.fields)
            #expect(begun.status == 200)
            // The flood goes on, and none of it takes the place of the one device of another network.
            try await issuer.store.write { records in
                for number in 0..<500 {
                    #expect(try records.makeRoomForDeviceAuthorization(at: now))
                    try records.insert(Self.waiting(now), from: ClientNetworks(["198.51.\(number / 30).1", "198.51.\(number / 30 / 32)"]))
                }
            }
            let routes = DeviceGrantRouteTests(test)
            _ = try await browser.get("/device")
            #expect(try await routes.decide(browser, begun.userCode, "allow").status == 200)
            test.pass(DeviceAuthorization.interval)
            #expect(try await routes.poll(device, begun.deviceCode).status == 200)
            let kept = try await test.contents().split(separator: "\n").first { $0.hasPrefix("device_authorization") }
            #expect(kept?.matches(of: /decided:0/).count == DeviceAuthorization.maximum - 1)
        }
    }

    private static func waiting(_ now: Milliseconds) -> DeviceAuthorization {
        DeviceAuthorization(
            code: Digest256(hashing: randomBytes(16)),
            userCode: Digest256(hashing: randomBytes(16)),
            client: "com.example.flood",
            scopes: .all,
            device: "",
            platform: "",
            expires: Milliseconds(clamping: now.count + DeviceAuthorization.life)
        )
    }

    @Test func networksShareTheirFailures() async throws {
        try await test.browse { client in
            func browser(_ subnet: Int, _ site: Int) -> TestBrowser {
                TestBrowser(client, address: "2001:db8:0:\(site)\(subnet)::/64 2001:db8:0:\(site)::/56 2001:db8::/48")
            }
            for number in 0..<(Self.free * ClientNetworks.factor) {
                let page = try await browser(number % (2 * ClientNetworks.factor), 1).signIn(name: "name \(number)", password: "x")
                #expect(page.status == 401)
            }
            let same = try await browser(9, 1).signIn(name: "a name", password: "x")
            #expect(same.status == 429)
            let other = try await browser(9, 2).signIn(name: "a name", password: "x")
            #expect(other.status == 401)
        }
    }
}
