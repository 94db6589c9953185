// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Logging
import RelayIssuer
import RelayProtocol
import RelayTesting
import Testing

@testable import RelayServer

/// The owner links an identity of a second issuer, and nobody else does.
@Suite(.timeLimit(.minutes(10))) final class IdentityLinkAttackTests {
    private let file = FileManager.default.temporaryDirectory.appending(path: "issuers-\(UUID().uuidString).json")

    deinit { try? FileManager.default.removeItem(at: file) }

    /// Anna's phone, which is established, and the issuer at which Eve has an identity of her own account.
    private func home() async throws -> (relayd: RelaydProcess, issuer: IssuerServer, phone: WireEndpoint, eve: WireEndpoint) {
        let issuer = try await IssuerServer(signers: [.es256("a")])
        try Data(#"{"issuers":[{"issuer":"\#(issuer.url)","audience":"the-relay"}]}"#.utf8).write(to: file)
        let relayd = try await RelaydProcess(arguments: [
            "--issuers-file", file.path, "--limit", "publishesPerSecond=10000",
        ])
        _ = try await relayd.start()
        for name in ["Anna", "Eve"] { _ = try await relayd.run("account", "add", name) }
        _ = try await relayd.run("account", "link", "Eve", "--issuer", issuer.url, "--subject", "eve")
        let (phone, eve) = (WireEndpoint("Phone", at: relayd), WireEndpoint("Eve", at: relayd))
        for (endpoint, account) in [(phone, "Anna"), (eve, "Eve")] {
            try await endpoint.join(try await relayd.run("invite", account))
            try await endpoint.connect()
        }
        return (relayd, issuer, phone, eve)
    }

    private func link(_ token: String, by endpoint: WireEndpoint) async throws -> ControlErrorCode? {
        let answer = try await endpoint.request { .identityLink(.init(ref: $0, token: Secret(token))) }
        return if case .failure(let failure) = answer { failure.code } else { nil }
    }

    private func identities(_ relayd: RelaydProcess) async throws -> [String] {
        let accounts = try JSONDecoder().decode([AdminAccount].self, from: Data(try await relayd.run("account", "list", "--json").utf8))
        return accounts.flatMap { account in account.identities.map { "\(account.name ?? "") \($0.subject)" } }.sorted()
    }

    private func bound(to endpoint: WireEndpoint) -> String { #"{"jkt":"\#(endpoint.identityKey.publicKey.jwkThumbprint)"}"# }

    @Test func linkedIdentitySignsInToTheSameAccount() async throws {
        let (relayd, issuer, phone, _) = try await home()
        let tablet = WireEndpoint("Tablet", at: relayd)
        tablet.token = try issuer.token(["sub": #""anna""#])
        guard case .rejected(let rejected) = try await tablet.greet(role: .host).1 else {
            throw WireEndpoint.Unexpected(message: "let in before")
        }
        #expect(rejected.code == .accountUnknown)
        // An old login's token that says when its person signed in, and one that says nothing else than when it was made.
        let now = Int(Date().timeIntervalSince1970)
        let token = try issuer.token(["cnf": bound(to: phone), "auth_time": "\(now - 60)", "iat": "\(now - 30)"])
        #expect(try await link(token, by: phone) == nil)
        #expect(try await link(try issuer.token(), by: phone) == nil)
        #expect(try await identities(relayd).count { $0.hasPrefix("Anna ") } == 2)
        try await tablet.connect()
        #expect(tablet.account == phone.account)
        // It is one of the account's devices, and new as any other one.
        guard case .failure(let failure) = try await tablet.revoke(phone) else { throw WireEndpoint.Unexpected(message: "established") }
        #expect(failure.code == .notEstablished)
        #expect(try await events(of: "Anna", at: relayd) == [issuer.url])
        #expect(try await relayd.stop() == 0)
    }

    /// What the owner reads about linked identities, once it is there.
    private func events(of name: String, at relayd: RelaydProcess) async throws -> [String] {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let settings = Issuer.Settings(directory: relayd.directory.path, origins: [relayd.origin], audience: "any")
        let issuer = try Issuer(settings: settings, now: { 0 }, logger: logger)
        defer { try? issuer.close() }
        let user = try #require(try await issuer.users().first { $0.name == name })
        while true {
            let found = try await issuer.events(of: user.subject).filter { $0.kind == .identityLinked }
            if !found.isEmpty { return found.map(\.detail) }
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    @Test func tokensThatDoNotProveTheOwnerLinkNothing() async throws {
        let (relayd, issuer, phone, eve) = try await home()
        let now = Int(Date().timeIntervalSince1970)
        let (old, young) = (now - 400, now - 5)
        let revoked = try issuer.token(["jti": #""revoked""#])
        #expect(try await TokenCommandTests.revoke(revoked, at: relayd) != nil)
        let other = IssuerServer.Signer.es256("a")
        let before = try await identities(relayd)
        for (name, token, code) in [
            ("nothing", "", .tokenInvalid), ("garbage", "a.b.c", .tokenInvalid),
            ("an old token", try issuer.token(["iat": "\(old)"]), .loginTooOld),
            ("a refreshed token", try issuer.token(["auth_time": "\(old)", "iat": "\(young)"]), .loginTooOld),
            ("a login of the future", try issuer.token(["auth_time": "\(now + 3_600)"]), .loginTooOld),
            ("a login of an unreadable time", try issuer.token(["auth_time": #""now""#]), .loginTooOld),
            ("no time", try issuer.token(["iat": ""]), .loginTooOld),
            ("an expired token", try issuer.token(["exp": "\(old)"]), .tokenExpired),
            ("a token of an untrusted issuer", try issuer.token(name: "https://other.example"), .wrongIssuer),
            ("a token with another signature", try issuer.token(by: other), .tokenInvalid),
            ("a token for another audience", try issuer.token(["aud": #""other""#]), .wrongAudience),
            ("another endpoint's token", try issuer.token(["cnf": bound(to: eve)]), .tokenBoundToOtherKey),
            ("a revoked token", revoked, .tokenRevoked), ("Eve's token", try issuer.token(["sub": #""eve""#]), .wrongAccount),
        ] as [(String, String, ControlErrorCode)] {
            #expect(try await link(token, by: phone) == code, "\(name)")
        }
        #expect(try await identities(relayd) == before)
        // The same is true of an identity of the relay's own issuer.
        let loose = WireEndpoint("Loose", at: relayd)
        try await loose.join(try await relayd.run("invite", "Eve"), isBound: false)
        #expect(try await link(loose.token, by: phone) == .wrongAccount)
        #expect(try await link(phone.token, by: phone) == nil)
        #expect(try await identities(relayd) == before)
        // A channel whose login was revoked links nothing any more.
        try await phone.revokeLogin()
        #expect(await phone.closeCode() == 1008)
        guard case .rejected(let rejected) = try await phone.greet(role: .client).1 else {
            throw WireEndpoint.Unexpected(message: "let in with a revoked login")
        }
        #expect(rejected.code == .tokenRevoked)
        #expect(try await identities(relayd) == before)
        #expect(try await relayd.stop() == 0)
    }

    /// A thief of a link or token must not open the account to an identity of its own.
    @Test func newcomerLinksNothing() async throws {
        let (relayd, issuer, phone, _) = try await home()
        let newcomer = WireEndpoint("Newcomer", at: relayd)
        try await newcomer.join(try await relayd.run("invite", "Anna"))
        try await newcomer.connect()
        let before = try await identities(relayd)
        #expect(try await link(try issuer.token(["sub": #""thief""#]), by: newcomer) == .notEstablished)
        #expect(try await identities(relayd) == before)
        guard case .ok = try await phone.approve(newcomer) else { throw WireEndpoint.Unexpected(message: "not approved") }
        #expect(try await link(try issuer.token(["sub": #""second""#]), by: newcomer) == nil)
        #expect(try await identities(relayd).count == before.count + 1)
        #expect(try await relayd.stop() == 0)
    }

    @Test func identitiesOfAnAccountAreBounded() async throws {
        let (relayd, issuer, phone, _) = try await home()
        // One is that of the relay's own issuer.
        for number in 1..<AccountRelay.maximumIdentities {
            #expect(try await link(try issuer.token(["sub": "\"\(number)\""]), by: phone) == nil)
        }
        #expect(try await link(try issuer.token(["sub": #""more""#]), by: phone) == .limitExceeded)
        #expect(try await link(try issuer.token(["sub": #""1""#]), by: phone) == nil)
        #expect(try await identities(relayd).count { $0.hasPrefix("Anna ") } == AccountRelay.maximumIdentities)
        #expect(try await relayd.stop() == 0)
    }
}
