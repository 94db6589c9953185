// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

@testable import RelayServer

/// Issuers that are not the relay's own: real servers, real tokens, a real `relayd`.
@Suite(.timeLimit(.minutes(10))) final class IssuersTests {
    private let directory = FileManager.default.temporaryDirectory.appending(path: "issuers-\(UUID().uuidString)")

    init() throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
    }

    deinit { try? FileManager.default.removeItem(at: directory) }

    /// A relay that trusts issuers.
    /// - Parameter entries: Members of each issuer's object, beside its name and audience.
    private func relayd(trusting entries: [(IssuerServer, String)], embedded: Bool = true) async throws -> RelaydProcess {
        let file = directory.appending(path: "issuers.json")
        let issuers = entries.map { #"{"issuer":"\#($0.url)","audience":"the-relay"\#($1.isEmpty ? "" : ",")\#($1)}"# }
        try Data(#"{"embedded":\#(embedded),"issuers":[\#(issuers.joined(separator: ","))]}"#.utf8).write(to: file)
        let relayd = try await RelaydProcess(arguments: ["--issuers-file", file.path])
        _ = try await relayd.start()
        return relayd
    }

    private func secretFile() throws -> String {
        let path = directory.appending(path: "secret").path
        #expect(
            FileManager.default.createFile(atPath: path, contents: Data("a:secret word\n".utf8), attributes: [.posixPermissions: 0o600])
        )
        return path
    }

    private func introspecting(_ members: String = "") throws -> String {
        #""mode":"introspection","clientID":"relay","clientSecretFile":"\#(try secretFile())","autoProvision":true\#(members)"#
    }

    /// The code of a rejection; `nil` if the token lets in.
    private func rejection(_ token: String, _ endpoint: WireEndpoint) async throws -> ControlErrorCode? {
        endpoint.token = token
        let (socket, answer) = try await endpoint.greet(role: .host)
        await socket.socket.close()
        // Only its account is not known yet: the token is accepted.
        if case .rejected(let rejected) = answer, rejected.code != .wrongAccount { return rejected.code }
        return nil
    }

    @Test func publishedKeysVerifyTokensOfEveryAlgorithm() async throws {
        let signers = try IssuerServer.Signer.all()
        let issuer = try await IssuerServer(signers: signers)
        let relayd = try await relayd(trusting: [(issuer, #""autoProvision":true"#)])
        for signer in signers {
            let phone = WireEndpoint("Phone", at: relayd)
            phone.token = try issuer.token(by: signer)
            try await phone.connect()
        }
        #expect(issuer.count("/tenant/keys") == 1)
        #expect(try await relayd.stop() == 0)
    }

    @Test func metadataOfTheRelayNamesItsIssuers() async throws {
        let (one, two) = (try await IssuerServer(), try await IssuerServer())
        for isEmbedded in [true, false] {
            let relayd = try await relayd(trusting: [(one, ""), (two, #""needsScopes":false"#)], embedded: isEmbedded)
            let socket = try await TestSocket(port: relayd.port)
            try await socket.send(
                "GET /.well-known/oauth-protected-resource HTTP/1.1\r\nHost: \(relayd.host)\r\nConnection: close\r\n\r\n"
            )
            let answer = await socket.textUntilClosed()
            #expect(answer.contains("\"\(one.url)\",\"\(two.url)\"]"))
            #expect(answer.contains("\"\(relayd.origin)/auth\"") == isEmbedded)
            #expect(answer.contains(#""scopes_supported":["relay.device.read","#))
            #expect(answer.contains("\"authorization_servers_without_scopes\":[\"\(two.url)\"]"))
            // So does the answer to a client without a token.
            if isEmbedded {
                let challenged = try await TestSocket(port: relayd.port)
                try await challenged.send(
                    "POST /auth/invitations HTTP/1.1\r\nHost: \(relayd.host)\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
                )
                let answer = await challenged.textUntilClosed()
                #expect(answer.hasPrefix("HTTP/1.1 401"))
                #expect(answer.contains("resource_metadata=\"\(relayd.origin)/.well-known/oauth-protected-resource\""))
            }
            // An issuer that is switched off serves nothing.
            let issuer = try await TestSocket(port: relayd.port)
            try await issuer.send("GET /auth/jwks HTTP/1.1\r\nHost: \(relayd.host)\r\nConnection: close\r\n\r\n")
            #expect(await issuer.textUntilClosed().hasPrefix(isEmbedded ? "HTTP/1.1 200" : "HTTP/1.1 404"))
            #expect(try await relayd.stop() == 0)
        }
    }

    @Test func rulesApplyToOneIssuerOnly() async throws {
        let (open, strict) = (try await IssuerServer(signers: [.es256("a")]), try await IssuerServer(signers: [.es256("a")]))
        let relayd = try await relayd(trusting: [
            (open, #""autoProvision":true,"scopesClaim":"permissions","accountClaim":"user","typeCheck":"relaxed""#),
            (strict, #""autoProvision":false,"allowedClients":["org.example.known"]"#),
        ])
        let phone = WireEndpoint("Phone", at: relayd)
        let header = #"{"alg":"ES256","typ":"JWT","kid":"a"}"#
        let all = #"["relay.device.register"]"#
        #expect(try await rejection(try open.token(["permissions": all, "user": #""anna""#], header: header), phone) == nil)
        #expect(try await rejection(try open.token(["user": #""anna""#]), phone) == .insufficientScope)
        #expect(try await rejection(try open.token(["permissions": all]), phone) == .tokenInvalid)
        #expect(try await rejection(try open.token(["permissions": all, "user": #""anna""#, "aud": #""other""#]), phone) == .wrongAudience)
        #expect(try await rejection(try strict.token(header: header), phone) == .tokenInvalid)
        #expect(try await rejection(try strict.token(), phone) == .clientNotAllowed)
        #expect(try await rejection(try strict.token(["client_id": #""org.example.known""#]), phone) == .accountUnknown)
        // A key of one issuer proves nothing at another.
        let forged = try strict.token(["permissions": all, "user": #""anna""#], name: open.url)
        #expect(try await rejection(forged, phone) == .tokenInvalid)
        #expect(try await relayd.stop() == 0)
    }

    /// The provider's name for the person, as far as an account can have it.
    @Test func newAccountGetsItsProvidersName() async throws {
        let issuer = try await IssuerServer(signers: [.es256("a")])
        let relayd = try await relayd(trusting: [(issuer, #""autoProvision":true"#)])
        let people: [(subject: String, claims: [String: String], name: String)] = [
            ("s1", ["preferred_username": #""anna""#, "name": #""Anna Example""#], "anna"),
            ("s2", ["preferred_username": #""ANNA""#], "ANNA 2"),
            ("s3", ["preferred_username": #""a\u202Eb""#, "name": #""Bert Example""#], "Bert Example"),
            ("s4", ["email": #""carl@example.org""#], "carl@example.org"),
            ("s5", ["preferred_username": "7", "name": #""""#], "-"),
        ]
        for person in people {
            let phone = WireEndpoint("Phone", at: relayd)
            phone.token = try issuer.token(person.claims.merging(["sub": "\"\(person.subject)\""]) { $1 })
            try await phone.connect()
        }
        let lines = try await relayd.run("account", "list").split(separator: "\n").map(String.init)
        for person in people {
            let place = try #require(lines.firstIndex { $0.hasSuffix(" as \(person.subject)") })
            #expect(lines[place - 1].contains("  \(person.name)  1 endpoint"), "\(lines)")
        }
        #expect(try await relayd.stop() == 0)
    }

    @Test func outageOfAnIssuerKeepsKnownKeysValid() async throws {
        let signer = IssuerServer.Signer.es256("old")
        let issuer = try await IssuerServer(signers: [signer])
        let relayd = try await relayd(trusting: [(issuer, #""autoProvision":true"#)])
        let phone = WireEndpoint("Phone", at: relayd)
        phone.token = try issuer.token()
        try await phone.connect()
        try await issuer.stop()
        phone.token = try issuer.token(["jti": #""another""#])
        try await phone.connect()
        let new = IssuerServer.Signer.es256("new")
        // Within half a minute of the last request the issuer is not even asked.
        let refused = try await rejection(try issuer.token(by: new), phone)
        #expect(refused == .tokenInvalid || refused == .issuerUnavailable)
        #expect(try await relayd.stop() == 0)
    }

    @Test func metadataOfAnotherIssuerIsRejected() async throws {
        let issuer = try await IssuerServer(signers: [.es256("a")])
        issuer.setName("https://issuer.example")
        let relayd = try await relayd(trusting: [(issuer, #""autoProvision":true"#)])
        #expect(try await rejection(try issuer.token(), WireEndpoint("Phone", at: relayd)) == .issuerUnavailable)
        #expect(issuer.count("/tenant/keys") == 0)
        #expect(try await relayd.stop() == 0)
    }

    @Test func opaqueTokenIsIntrospectedWithTheRelaysCredentials() async throws {
        let issuer = try await IssuerServer()
        let relayd = try await relayd(trusting: [(issuer, try introspecting())])
        let (token, other) = ("opaque-\(UUID().uuidString)", "opaque-\(UUID().uuidString)")
        issuer.setClaims(IssuerServer.claims(), of: token)
        let phone = WireEndpoint("Phone", at: relayd)
        phone.token = token
        try await phone.connect()
        // Hello, and hello again for its account: one question.
        #expect(issuer.requests.count { $0.form.contains(token) } == 1)
        #expect(try await rejection(other, phone) == .tokenRevoked)
        for (claims, code) in [
            (["aud": #""other""#], .wrongAudience), (["exp": ""], .tokenInvalid), (["exp": "1"], .tokenExpired),
            (["iss": #""https://issuer.example""#], .wrongIssuer), (["scope": #""relay.push""#], .insufficientScope),
            (["cnf": #"{"jkt":"other"}"#], .tokenBoundToOtherKey),
        ] as [([String: String], ControlErrorCode)] {
            let token = "opaque-\(UUID().uuidString)"
            issuer.setClaims(IssuerServer.claims(claims), of: token)
            #expect(try await rejection(token, phone) == code)
        }
        #expect(try await relayd.stop() == 0)
    }

    /// The relay asks again about the token of a channel that is open.
    @Test func tokenRevokedAtItsIssuerEndsItsChannel() async throws {
        let issuer = try await IssuerServer()
        let relayd = try await relayd(trusting: [(issuer, try introspecting(#","recheckSeconds":1"#))])
        let token = "opaque-\(UUID().uuidString)"
        issuer.setClaims(IssuerServer.claims(), of: token)
        let phone = WireEndpoint("Phone", at: relayd)
        phone.token = token
        try await phone.connect()
        // An issuer that does not answer ends nothing.
        try await issuer.stop()
        try await Task.sleep(for: .seconds(2))
        _ = try await phone.receivedMessages()
        try await issuer.start()
        issuer.setClaims(nil, of: token)
        let invalidated = try await phone.event { if case .authInvalidated(let invalidated) = $0 { invalidated } else { nil } }
        #expect(invalidated.code == .tokenRevoked)
        #expect(await phone.closeCode() == 1008)
        #expect(try await relayd.stop() == 0)
    }

    @Test(arguments: [
        (#"{"issuers":[{"issuer":"http://issuer.example","audience":"a"}]}"#, "https"),
        (#"{"issuers":[{"issuer":"https://issuer.example?x","audience":"a"}]}"#, "https"),
        (#"{"issuers":[{"issuer":"https://issuer.example"}]}"#, "audience"),
        (#"{"issuers":[{"issuer":"https://issuer.example","audience":"a","autoprovision":true}]}"#, "autoprovision"),
        (#"{"issuers":[{"issuer":"https://issuer.example","audience":"a","mode":"introspection"}]}"#, "clientID"),
        (
            #"{"issuers":[{"issuer":"https://a.example","audience":"a","mode":"introspection","clientID":"a","clientSecretVariable":"NONE"}]}"#,
            "NONE"
        ),
        (#"{"issuers":[{"issuer":"https://a.example","audience":"a"},{"issuer":"https://a.example","audience":"b"}]}"#, "twice"),
        (#"{"embedded":false}"#, "at least one"), (#"[]"#, "issuers.json"), (#"{"issuer":[]}"#, "issuer:"),
    ])
    func invalidIssuersFileIsRejected(text: String, word: String) throws {
        let path = directory.appending(path: "issuers.json").path
        try Data(text.utf8).write(to: URL(filePath: path))
        let error = try #require(throws: ConfigurationError.self) { try IssuersFile(path: path, environment: [:]) }
        #expect(error.description.contains(word), "\(error)")
    }

    @Test func wrongSecretOfTheRelayIsReportedAtItsStart() async throws {
        let issuer = try await IssuerServer()
        let path = directory.appending(path: "secret").path
        try #require(FileManager.default.createFile(atPath: path, contents: Data("wrong".utf8), attributes: [.posixPermissions: 0o600]))
        let log = directory.appending(path: "log")
        #expect(FileManager.default.createFile(atPath: log.path, contents: nil))
        let members = #""mode":"introspection","clientID":"relay","clientSecretFile":"\#(path)""#
        let file = directory.appending(path: "issuers.json")
        try Data(#"{"issuers":[{"issuer":"\#(issuer.url)","audience":"the-relay",\#(members)}]}"#.utf8).write(to: file)
        let relayd = try await RelaydProcess(arguments: ["--issuers-file", file.path])
        relayd.standardError = try FileHandle(forWritingTo: log)
        _ = try await relayd.start()
        #expect(
            try await eventually { (try? String(contentsOf: log, encoding: .utf8))?.contains("refuses this relay's clientID") ?? false }
        )
        let text = try String(contentsOf: log, encoding: .utf8)
        #expect(text.contains("give its entry the audience \(relayd.origin)"))
        #expect(!text.contains("wrong"))
        let phone = WireEndpoint("Phone", at: relayd)
        #expect(try await rejection("opaque", phone) == .issuerUnavailable)
        #expect(try await relayd.stop() == 0)
    }

    @Test func secretReadableByOthersIsRejected() throws {
        let path = directory.appending(path: "issuers.json").path
        let secret = try secretFile()
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: secret)
        let entry = #"{"issuer":"https://a.example","audience":"a","mode":"introspection","clientID":"a","clientSecretFile":"\#(secret)"}"#
        try Data(#"{"issuers":[\#(entry)]}"#.utf8).write(to: URL(filePath: path))
        #expect(throws: ConfigurationError.self) { try IssuersFile(path: path, environment: [:]) }
    }
}
