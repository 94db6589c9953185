// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayServer
import RelayTesting
import Testing

/// The operator revokes a token that was lost.
@Suite(.timeLimit(.minutes(10))) struct TokenCommandTests {
    /// - Parameter token: What is typed.
    static func revoke(_ token: String, at relayd: RelaydProcess) async throws -> AdminToken? {
        let process = RelaydProcess.process(["token", "revoke", "--json", "--data-directory", relayd.directory.path])
        let ended = try await ProcessRun.run(process, input: token + "\n")
        return try? JSONDecoder().decode(AdminToken.self, from: Data(ended.output.utf8))
    }

    private func rejection(_ endpoint: WireEndpoint) async throws -> ControlErrorCode? {
        let (socket, answer) = try await endpoint.greet(role: .host)
        await socket.socket.close()
        return if case .rejected(let rejected) = answer { rejected.code } else { nil }
    }

    @Test func revokingAnEmbeddedTokenRevokesItsLogin() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
        let (phone, other) = (WireEndpoint("Phone", at: relayd), WireEndpoint("PC", at: relayd))
        for endpoint in [phone, other] {
            try await endpoint.join(try await relayd.run("invite", "Anna"))
            try await endpoint.connect()
        }
        let revoked = try #require(try await Self.revoke(phone.token, at: relayd))
        #expect(revoked.issuer == "embedded")
        #expect(revoked.isLoginRevoked)
        let code = try await phone.event { if case .authInvalidated(let invalidated) = $0 { invalidated.code } else { nil } }
        #expect(code == .tokenRevoked)
        #expect(await phone.closeCode() == 1008)
        #expect(try await rejection(phone) == .tokenRevoked)
        await #expect(throws: (any Error).self) { try await phone.refresh() }
        _ = try await other.receivedMessages()
        // What is no token, or none any more.
        for token in ["x", phone.token] { #expect(try await Self.revoke(token, at: relayd) == nil) }
        #expect(try await relayd.stop() == 0)
        _ = try await relayd.start()
        #expect(try await rejection(phone) == .tokenRevoked)
        #expect(try await relayd.stop() == 0)
    }

    @Test func revokedTokenOfAnotherIssuerIsRejected() async throws {
        let issuer = try await IssuerServer(signers: [.es256("a")])
        let file = FileManager.default.temporaryDirectory.appending(path: "issuers-\(UUID().uuidString).json")
        defer { try? FileManager.default.removeItem(at: file) }
        try Data(#"{"issuers":[{"issuer":"\#(issuer.url)","audience":"the-relay","autoProvision":true}]}"#.utf8).write(to: file)
        let relayd = try await RelaydProcess(arguments: ["--issuers-file", file.path])
        _ = try await relayd.start()
        let phone = WireEndpoint("Phone", at: relayd)
        phone.token = try issuer.token()
        try await phone.connect()
        #expect(try await Self.revoke(phone.token, at: relayd)?.isLoginRevoked == false)
        #expect(await phone.closeCode() == 1008)
        #expect(try await relayd.stop() == 0)
        _ = try await relayd.start()
        #expect(try await rejection(phone) == .tokenRevoked)
        // It is the token that was revoked.
        phone.token = try issuer.token(["jti": #""another""#])
        try await phone.connect()
        #expect(try await relayd.stop() == 0)
    }

    /// Two identities, one account: only the operator's word joins them, and removal forgets both.
    @Test func linkedIdentityReachesTheSameAccount() async throws {
        let issuer = try await IssuerServer(signers: [.es256("a")])
        let file = FileManager.default.temporaryDirectory.appending(path: "issuers-\(UUID().uuidString).json")
        defer { try? FileManager.default.removeItem(at: file) }
        try Data(#"{"issuers":[{"issuer":"\#(issuer.url)","audience":"the-relay","autoProvision":false}]}"#.utf8).write(to: file)
        let relayd = try await RelaydProcess(arguments: ["--issuers-file", file.path])
        _ = try await relayd.start()
        for name in ["Anna", "Bert"] { _ = try await relayd.run("account", "add", name) }
        let phone = WireEndpoint("Phone", at: relayd)
        try await phone.join(try await relayd.run("invite", "Anna"))
        try await phone.connect()
        let tablet = WireEndpoint("Tablet", at: relayd)
        // The same subject and e-mail address as Anna's do not give access to her account.
        tablet.token = try issuer.token(["email": #""anna@example.org""#])
        #expect(try await rejection(tablet) == .accountUnknown)
        _ = try await relayd.run("account", "link", "Anna", "--issuer", issuer.url, "--subject", "anna")
        try await tablet.connect()
        #expect(tablet.account == phone.account)
        for arguments in [
            ["Bert", "--issuer", issuer.url, "--subject", "anna"], ["Anna", "--issuer", "https://issuer.example", "--subject", "anna"],
            ["Anna", "--issuer", issuer.url, "--subject", "a b"], ["Anna", "--issuer", "embedded", "--subject", "anna"],
        ] {
            let all = ["account", "link"] + arguments + ["--data-directory", relayd.directory.path]
            #expect(try await RelaydProcess.run(all).status == 1, "\(arguments)")
        }
        _ = try await relayd.run("account", "remove", "--yes", "Anna")
        for endpoint in [phone, tablet] { #expect(await endpoint.closeCode() == 1008) }
        #expect(try await rejection(tablet) == .accountUnknown)
        #expect(try await relayd.stop() == 0)
    }
}
