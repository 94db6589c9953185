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

    /// A token of a login at the endpoint just now, but for the changes.
    private func fresh(_ issuer: IssuerServer, _ endpoint: WireEndpoint, _ changes: [String: String] = [:]) throws -> String {
        let now = Int(Date().timeIntervalSince1970)
        return try issuer.token(["cnf": bound(to: endpoint), "auth_time": "\(now)"].merging(changes) { $1 })
    }

    @Test func linkedIdentitySignsInToTheSameAccount() async throws {
        let (relayd, issuer, phone, _) = try await home()
        let tablet = WireEndpoint("Tablet", at: relayd)
        tablet.token = try issuer.token(["sub": #""anna""#])
        guard case .rejected(let rejected) = try await tablet.greet(role: .host).1 else {
            throw WireEndpoint.Unexpected(message: "let in before")
        }
        #expect(rejected.code == .accountUnknown)
        let now = Int(Date().timeIntervalSince1970)
        let token = try issuer.token(["cnf": bound(to: phone), "auth_time": "\(now - 60)", "iat": "\(now - 30)"])
        #expect(try await link(token, by: phone) == nil)
        #expect(try await link(try fresh(issuer, phone), by: phone) == nil)
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
        let settings = Issuer.Settings(origins: [relayd.origin], audience: "any")
        let issuer = try Issuer.open(relayd.directory.path, settings: settings, now: { 0 }, logger: logger)
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
            ("an old token", try fresh(issuer, phone, ["auth_time": "\(old)"]), .loginTooOld),
            ("a refreshed token", try fresh(issuer, phone, ["auth_time": "\(old)", "iat": "\(young)"]), .loginTooOld),
            ("a login of the future", try fresh(issuer, phone, ["auth_time": "\(now + 3_600)"]), .loginTooOld),
            ("a login of an unreadable time", try fresh(issuer, phone, ["auth_time": #""now""#]), .loginTooOld),
            ("no time of the login, although the token is new", try fresh(issuer, phone, ["auth_time": ""]), .loginTooOld),
            ("a token that another service may have", try fresh(issuer, phone, ["cnf": ""]), .tokenNotBound),
            ("an expired token", try issuer.token(["exp": "\(old)"]), .tokenExpired),
            ("a token of an untrusted issuer", try issuer.token(name: "https://other.example"), .wrongIssuer),
            ("a token with another signature", try issuer.token(by: other), .tokenInvalid),
            ("a token for another audience", try issuer.token(["aud": #""other""#]), .wrongAudience),
            ("another endpoint's token", try issuer.token(["cnf": bound(to: eve)]), .tokenBoundToOtherKey),
            ("a revoked token", revoked, .tokenRevoked), ("Eve's identity", try fresh(issuer, phone, ["sub": #""eve""#]), .wrongAccount),
        ] as [(String, String, ControlErrorCode)] {
            #expect(try await link(token, by: phone) == code, "\(name)")
        }
        #expect(try await identities(relayd) == before)
        // The same is true of an identity of the relay's own issuer.
        let loose = WireEndpoint("Loose", at: relayd)
        try await loose.join(try await relayd.run("invite", "Eve"), isBound: false)
        #expect(try await link(loose.token, by: phone) == .tokenNotBound)
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
        #expect(try await link(try fresh(issuer, newcomer, ["sub": #""thief""#]), by: newcomer) == .notEstablished)
        #expect(try await identities(relayd) == before)
        guard case .ok = try await phone.approve(newcomer) else { throw WireEndpoint.Unexpected(message: "not approved") }
        #expect(try await link(try fresh(issuer, newcomer, ["sub": #""second""#]), by: newcomer) == nil)
        #expect(try await identities(relayd).count == before.count + 1)
        #expect(try await relayd.stop() == 0)
    }

    @Test func identitiesOfAnAccountAreBounded() async throws {
        let (relayd, issuer, phone, _) = try await home()
        // One is that of the relay's own issuer.
        for number in 1..<AccountRelay.maximumIdentities {
            #expect(try await link(try fresh(issuer, phone, ["sub": "\"\(number)\""]), by: phone) == nil)
        }
        #expect(try await link(try fresh(issuer, phone, ["sub": #""more""#]), by: phone) == .limitExceeded)
        #expect(try await link(try fresh(issuer, phone, ["sub": #""1""#]), by: phone) == nil)
        #expect(try await identities(relayd).count { $0.hasPrefix("Anna ") } == AccountRelay.maximumIdentities)
        #expect(try await relayd.stop() == 0)
    }

    // MARK: A stolen device

    private func notice(_ endpoint: WireEndpoint) async throws -> RelayMessage.IdentityChanged {
        try await endpoint.event { if case .identityChanged(let change) = $0 { change } else { nil } }
    }

    private func rejection(_ endpoint: WireEndpoint) async throws -> ControlErrorCode? {
        let (socket, answer) = try await endpoint.greet(role: .host)
        await socket.socket.close()
        return if case .rejected(let rejected) = answer, rejected.code != .wrongAccount { rejected.code } else { nil }
    }

    /// The thief of a PC links an identity of his own, and signs in with it on a device of his.
    private func theft() async throws -> (
        relayd: RelaydProcess, issuer: IssuerServer, phone: WireEndpoint, pc: WireEndpoint, thief: WireEndpoint
    ) {
        let (relayd, issuer, phone, _) = try await home()
        let pc = WireEndpoint("PC", at: relayd)
        try await pc.join(try await relayd.run("invite", "Anna"))
        try await pc.connect()
        guard case .ok = try await phone.approve(pc) else { throw WireEndpoint.Unexpected(message: "not approved") }
        #expect(try await link(try fresh(issuer, pc, ["sub": #""thief""#]), by: pc) == nil)
        // The owner's other device says so at once.
        let notice = try await notice(phone)
        #expect(notice.change == .linked && notice.issuer == issuer.url && notice.endpoint == pc.id)
        let thief = WireEndpoint("Thief", at: relayd)
        thief.token = try issuer.token(["sub": #""thief""#])
        try await thief.connect()
        return (relayd, issuer, phone, pc, thief)
    }

    /// Without this, the thief comes back with a new key for ever.
    @Test func identityGoesWithTheEndpointThatLinkedIt() async throws {
        let (relayd, issuer, phone, pc, thief) = try await theft()
        let list = try await relayd.run("account", "list")
        #expect(list.contains("signs in at \(issuer.url) as thief, linked by endpoint \(pc.id)"))
        guard case .ok = try await phone.revoke(pc) else { throw WireEndpoint.Unexpected(message: "not revoked") }
        let notices = try await phone.receivedMessages().compactMap { if case .identityChanged(let change) = $0 { change } else { nil } }
        let removed = try #require(notices.first, "the identity stays")
        #expect(removed.change == .removed && removed.endpoint == pc.id)
        // The channel of the identity ends, and no key gets in by it any more.
        let code = try await thief.event { if case .authInvalidated(let invalidated) = $0 { invalidated.code } else { nil } }
        #expect(code == .accountUnknown)
        #expect(await thief.closeCode() == 1008)
        let another = WireEndpoint("Another", at: relayd)
        another.token = try issuer.token(["sub": #""thief""#])
        for endpoint in [thief, another] { #expect(try await rejection(endpoint) == .accountUnknown) }
        #expect(try await !identities(relayd).contains("Anna thief"))
        #expect(try await relayd.stop() == 0)
    }

    /// A device that came by the linked identity counts as let in by the endpoint that linked it.
    @Test func devicesOfALinkedIdentityAreRevokedWithItsLinker() async throws {
        let (relayd, issuer, _, pc, thief) = try await theft()
        let output = try await relayd.run("endpoint", "revoke", "--yes", "--with-invited", "\(pc.id)")
        #expect(output.contains("revoked \(pc.id)") && output.contains("revoked \(thief.id)"))
        // What the relay cannot end is said.
        #expect(!output.contains(issuer.url), "the account has no identity there any more")
        // Its identity went with the linker, so the relay knows no account for it.
        #expect(try await rejection(thief) == .accountUnknown)
        #expect(try await relayd.stop() == 0)
    }

    @Test func operatorRemovesALinkedIdentity() async throws {
        let (relayd, issuer, phone, _, thief) = try await theft()
        let arguments = ["--issuer", issuer.url, "--subject", "thief"]
        _ = try await relayd.run("account", "unlink", "Anna", arguments[0], arguments[1], arguments[2], arguments[3])
        #expect(try await notice(phone).change == .removed)
        #expect(await thief.closeCode() == 1008)
        #expect(try await rejection(thief) == .accountUnknown)
        await #expect(throws: RelaydProcess.Failed.self) {
            try await relayd.run("account", "unlink", "Anna", arguments[0], arguments[1], arguments[2], arguments[3])
        }
        // The account began with its user of the relay's own issuer, and keeps it.
        let accounts = try JSONDecoder().decode([AdminAccount].self, from: Data(try await relayd.run("account", "list", "--json").utf8))
        let subject = try #require(accounts.first { $0.name == "Anna" }?.identities.first?.subject)
        await #expect(throws: RelaydProcess.Failed.self) {
            try await relayd.run("account", "unlink", "Anna", "--issuer", "embedded", "--subject", subject)
        }
        #expect(try await relayd.stop() == 0)
    }

    /// The relay cannot end the login of another issuer. Its tokens from before a revocation let no new key in.
    @Test func tokenFromBeforeARevocationLetsNoNewKeyIn() async throws {
        let (relayd, issuer, phone, _) = try await home()
        _ = try await relayd.run("account", "link", "Anna", "--issuer", issuer.url, "--subject", "anna")
        let now = Int(Date().timeIntervalSince1970)
        let stolen = WireEndpoint("Stolen", at: relayd)
        let known = WireEndpoint("Known", at: relayd)
        for endpoint in [stolen, known] {
            endpoint.token = try issuer.token(["iat": "\(now - 30)"])
            try await endpoint.connect()
        }
        let output = try await relayd.run("endpoint", "revoke", "--yes", "\(stolen.id)")
        #expect(output.contains("cannot end logins there") && output.contains(issuer.url))
        let thief = WireEndpoint("Thief", at: relayd)
        thief.steal(from: stolen)
        for token in [stolen.token, try issuer.token(["iat": ""]), try fresh(issuer, thief, ["iat": "\(now - 30)"])] {
            thief.token = token
            #expect(try await rejection(thief) == .tokenRevoked)
        }
        // A device of the account goes on with such a token, and a later login lets a device in.
        await known.disconnect()
        try await known.connect()
        let tablet = WireEndpoint("Tablet", at: relayd)
        tablet.token = try issuer.token(["iat": "\(Int(Date().timeIntervalSince1970) + 2)"])
        try await tablet.connect()
        #expect(tablet.account == phone.account)
        #expect(try await relayd.stop() == 0)
    }
}
