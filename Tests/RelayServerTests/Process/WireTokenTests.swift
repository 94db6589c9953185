// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Logging
import RelayProtocol
import RelayServer
import RelayTesting
import Testing

@testable import RelayIssuer

/// Tokens that look right, at the real service. What its own issuer signed comes from a second process on its database.
@Suite(.timeLimit(.minutes(10))) struct WireTokenTests {
    private struct Forger {
        let relayd: RelaydProcess
        let relay: RelayID
        /// The relay's own issuer, and one that is not.
        let own: Issuer
        let foreign: Issuer
        let elsewhere = FileManager.default.temporaryDirectory.appending(path: "issuer-\(UUID().uuidString)")
        let now: Milliseconds

        init(_ relayd: RelaydProcess, _ relay: RelayID) throws {
            (self.relayd, self.relay) = (relayd, relay)
            let now = Milliseconds(clamping: Int64(Date().timeIntervalSince1970 * 1_000))
            self.now = now
            try FileManager.default.createDirectory(at: elsewhere, withIntermediateDirectories: false)
            func open(_ directory: URL) throws -> Issuer {
                try Issuer.open(
                    directory.path,
                    settings: .init(origins: [relayd.origin], audience: "\(relay)"),
                    now: { now },
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
                )
            }
            own = try open(relayd.directory)
            foreign = try open(elsewhere)
        }

        func close() {
            try? own.close()
            try? foreign.close()
            try? FileManager.default.removeItem(at: elsewhere)
        }

        /// A token of a person of the relay, right but for what is said.
        func token(
            of subject: String,
            by signer: Issuer? = nil,
            key: P256SigningKey? = nil,
            issuer: String? = nil,
            audience: String? = nil,
            boundTo bound: SigningPublicKey? = nil,
            age: Int64 = 0
        ) async throws -> String {
            let signer = try await (signer ?? own).keyRing.signer(at: now)
            let token = AccessTokenClaims(
                issuer: issuer ?? relayd.origin + Issuer.path,
                audience: audience ?? "\(relay)",
                subject: subject,
                client: "org.example.test",
                scopes: .all,
                session: nil,
                key: bound?.jwkThumbprint,
                id: Array(repeating: 1, count: 16),
                now: Milliseconds(clamping: now.count - age)
            )
            return try token.signed(by: key ?? signer.key, id: signer.id).exposed
        }
    }

    @Test func onlyAFullyValidTokenIsAccepted() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        let account = try JSONDecoder().decode(
            AdminAccount.self,
            from: Data(try await relayd.run("account", "add", "Anna", "--json").utf8)
        )
        let subject = try #require(account.identities.first?.subject)
        let phone = WireEndpoint("Phone", at: relayd)
        try await phone.join(try await relayd.run("invite", "Anna"))
        let good = phone.token
        let forger = try Forger(relayd, try #require(phone.relay))
        defer { forger.close() }
        let hour: Int64 = 3_600_000
        let cases: [(name: String, token: String, code: ControlErrorCode)] = [
            ("wrong signature", try await forger.token(of: subject, key: P256SigningKey()), .tokenInvalid),
            ("expired", try await forger.token(of: subject, age: hour), .tokenExpired),
            ("not yet valid", try await forger.token(of: subject, age: -hour), .tokenNotYetValid),
            ("another issuer", try await forger.token(of: subject, issuer: "https://issuer.example/auth"), .wrongIssuer),
            ("another issuer in its name", try await forger.token(of: subject, by: forger.foreign), .tokenInvalid),
            ("another relay's", try await forger.token(of: subject, audience: "\(RelayID(P256SigningKey().publicKey))"), .wrongAudience),
            ("bound to another key", try await forger.token(of: subject, boundTo: P256SigningKey().publicKey), .tokenBoundToOtherKey),
            ("a part missing", good.split(separator: ".").dropLast().joined(separator: "."), .tokenInvalid),
            ("nothing", "", .tokenInvalid),
            ("garbage", "a.b.c", .tokenInvalid),
            ("20 KiB", String(repeating: "a", count: 20 << 10), .tokenInvalid),
            ("20 KiB behind a good one", good + String(repeating: "A", count: 20 << 10), .tokenInvalid),
        ]
        for (name, token, code) in cases {
            phone.token = token
            let (_, answer) = try await phone.greet(role: .host)
            guard case .rejected(let rejected) = answer else {
                Issue.record("\(name): \(answer)")
                continue
            }
            #expect(rejected.code == code, "\(name)")
            #expect(rejected.retry, "\(name)")
        }
        // More than may come before welcome is not even read.
        phone.token = String(repeating: "a", count: 40 << 10)
        let long = try await TestWebSocket.open(try await TestSocket(port: relayd.port), host: relayd.host)
        try await long.send(try phone.hello(to: try await long.challenge(), role: .host))
        #expect(await long.closeCode() == 1009)
        // The forger's tokens are good where nothing is wrong with them.
        phone.token = try await forger.token(of: subject, boundTo: phone.identityKey.publicKey)
        try await phone.connect()
        phone.token = good
        try await phone.connect()
        // And on a live channel the same tokens change nothing.
        for (name, token, code) in cases {
            let answer = try await phone.request { .authRefresh(.init(ref: $0, token: Secret(token))) }
            guard case .failure(let failure) = answer else {
                Issue.record("\(name): \(answer)")
                continue
            }
            #expect(failure.code == code, "\(name)")
        }
        #expect(try await phone.receivedMessages() == [])
        #expect(try await relayd.stop() == 0)
    }
}
