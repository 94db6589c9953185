// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Foundation
import RelayProtocol
import RelayTesting
import Synchronization
import Testing

/// Many people guess passwords at once.
@Suite(.serialized, .timeLimit(.minutes(10))) struct LoginStormAttackTests {
    /// KiB that the relay may hold at the worst moment. Each hash that runs holds 128 MiB.
    static let memoryCeiling = 400 << 10
    static let guesses = 1_000
    static let atOnce = 500

    private final class Flag: Sendable {
        private let value = Atomic(false)
        var isRaised: Bool { value.load(ordering: .relaxed) }
        func raise() { value.store(true, ordering: .relaxed) }
    }

    /// - Returns: How many guesses got which status.
    private static func guess(_ names: [String], by browser: SignInBrowser, at origin: String) async throws -> [Int: Int] {
        try await withThrowingTaskGroup(of: [Int: Int].self) { group in
            for lane in 0..<atOnce {
                group.addTask {
                    var answers: [Int: Int] = [:]
                    let url = browser.address("/auth/login")
                    for number in 0..<(guesses / atOnce) {
                        let guess = number * atOnce + lane
                        let request = RouteRequest.form(
                            ["name": names[guess % names.count], "password": "wrong password \(guess)", "form_code": browser.code],
                            headers: [
                                ("Cookie", browser.cookies(for: url)), ("Origin", origin),
                                ("X-Forwarded-For", "203.0.\(guess / 250).\(guess % 250 + 1)"),
                            ]
                        )
                        let page = try await SignInBrowser.request("POST", url, headers: request.headers, body: request.body)
                        answers[page.status, default: 0] += 1
                    }
                    return answers
                }
            }
            return try await group.reduce(into: [:]) { $0.merge($1, uniquingKeysWith: +) }
        }
    }

    /// Reads what is public again and again.
    /// - Returns: How often it was there.
    private static func read(at origin: String, isEnough: @Sendable () -> Bool) async throws -> Int {
        var count = 0
        while !isEnough() || count < 10 {
            for path in ["/.well-known/oauth-protected-resource", "/auth/jwks", "/auth/style.css", "/readyz"] {
                #expect(try await SignInBrowser.request("GET", origin + path).status == 200, "\(path)")
            }
            count += 1
            try await Task.sleep(for: .milliseconds(50))
        }
        return count
    }

    /// The guesses come by a proxy from as many addresses, at accounts that exist and that do not.
    @Test func aThousandWrongPasswordsLeaveMemoryAndOtherRequestsAlone() async throws {
        let relayd = try await RelaydProcess(arguments: ["--trusted-proxy", "127.0.0.1"])
        _ = try await relayd.start()
        let names = (0..<20).map { "Person \($0)" }
        for name in ["Anna"] + names.prefix(2) { _ = try await relayd.run("account", "add", name) }
        for name in ["Anna"] + names.prefix(2) {
            try await SignInBrowser(origin: relayd.origin).setUp(try await relayd.run("account", "set-up", name))
        }
        let victim = try await Victim.join(relayd)
        let vitals = Vitals(relayd, log: relayd.directory)
        // A code fits its cookie, from whatever address.
        let browser = SignInBrowser(origin: relayd.origin)
        _ = try await browser.get("/auth/login")
        let (origin, isOver) = (relayd.origin, Flag())
        vitals.forgetPeak()
        // Others are served as long as the storm lasts, and at least ten times.
        async let launches = onThread {
            var count = 0
            while !isOver.isRaised || count < 10 {
                try victim.launch()
                count += 1
                // Not more than the rate limit of an endpoint allows.
                Thread.sleep(forTimeInterval: 0.05)
            }
            return count
        }
        async let readings = Self.read(at: origin) { isOver.isRaised }
        let guesses = Task {
            defer { isOver.raise() }
            return try await Self.guess(names, by: browser, at: origin)
        }
        let answers = try await guesses.value
        #expect(try await launches >= 10)
        #expect(try await readings >= 10)
        // Each guess was answered: as wrong, or with the request to come later.
        #expect(answers.values.reduce(0, +) == Self.guesses)
        #expect(Set(answers.keys) == [401, 503], "\(answers)")
        let peak = vitals.peakMemory
        print("login storm: \(answers), peak \(peak) KiB")
        #expect(peak < Self.memoryCeiling)
        // The owner signs in as soon as there is a place.
        var status = 503
        while status == 503 {
            let owner = SignInBrowser(origin: relayd.origin)
            _ = try await owner.get("/auth/login")
            status = try await owner.post("/auth/login", ["name": "Anna", "password": SignInBrowser.password]).status
        }
        #expect(status == 303)
        #expect(try await relayd.stop() == 0)
    }
}
#endif
