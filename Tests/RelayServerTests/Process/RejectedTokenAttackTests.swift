// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

@testable import RelayServer

/// Every control message with every token that must not count: it is refused with the right code, and nothing changes.
@Suite(.timeLimit(.minutes(10))) final class RejectedTokenAttackTests {
    private let file = FileManager.default.temporaryDirectory.appending(path: "issuers-\(UUID().uuidString).json")

    deinit { try? FileManager.default.removeItem(at: file) }

    /// Anna's phone and PC, whose commands wait, and Eve, who has an account of her own.
    private struct World {
        let relayd: RelaydProcess
        let issuer: IssuerServer
        let phone: WireEndpoint
        let pc: WireEndpoint
        let eve: WireEndpoint
        let commands: [SealedCommand]

        func messages(_ kind: Intrusion.Kind, as role: EndpointMessage.Hello.Role) throws -> [EndpointMessage] {
            let intrusion = Intrusion(phone: phone, pc: pc, eve: eve, role: role, commands: commands, stolenToken: pc.token)
            return try intrusion.attempts(kind).map(\.0)
        }

        func dump() throws -> DatabaseDump { try DatabaseDump(of: relayd, besides: eve) }
    }

    private func world() async throws -> World {
        let issuer = try await IssuerServer(signers: [.es256("a")])
        try Data(#"{"issuers":[{"issuer":"\#(issuer.url)","audience":"the-relay"}]}"#.utf8).write(to: file)
        let relayd = try await RelaydProcess(arguments: [
            "--issuers-file", file.path, "--limit", "publishesPerSecond=10000", "--limit", "commandsPerSecond=10000",
        ])
        _ = try await relayd.start()
        for name in ["Anna", "Eve"] { _ = try await relayd.run("account", "add", name) }
        // Tokens of the other issuer are Anna's too, so that each is right but for one thing.
        _ = try await relayd.run("account", "link", "Anna", "--issuer", issuer.url, "--subject", "anna")
        let (phone, pc, eve) = (WireEndpoint("Phone", at: relayd), WireEndpoint("PC", at: relayd), WireEndpoint("Eve", at: relayd))
        for (endpoint, account) in [(phone, "Anna"), (pc, "Anna"), (eve, "Eve")] {
            try await endpoint.join(try await relayd.run("invite", account))
            try await endpoint.connect()
        }
        var commands: [SealedCommand] = []
        for number in 1...2 as ClosedRange<UInt64> {
            let command = try phone.launch("film:\(number)", on: pc, number: number)
            guard case .ok = try await phone.send(command) else { throw WireEndpoint.Unexpected(message: "not accepted") }
            commands.append(command)
        }
        _ = try await pc.receivedMessages()
        return World(relayd: relayd, issuer: issuer, phone: phone, pc: pc, eve: eve, commands: commands)
    }

    /// Tokens that must not count, right but for what is said.
    private func tokens(_ world: World) async throws -> [(name: String, token: String, code: ControlErrorCode)] {
        let issuer = world.issuer
        let now = Int(Date().timeIntervalSince1970)
        let revoked = try issuer.token(["jti": #""revoked""#])
        #expect(try await TokenCommandTests.revoke(revoked, at: world.relayd) != nil)
        return [
            ("no token", "", .tokenInvalid),
            ("expired", try issuer.token(["exp": "\(now - 3_600)"]), .tokenExpired),
            ("not yet valid", try issuer.token(["nbf": "\(now + 3_600)"]), .tokenNotYetValid),
            ("wrong audience", try issuer.token(["aud": #""other""#]), .wrongAudience),
            ("revoked", revoked, .tokenRevoked),
            (
                "bound to another endpoint's key",
                try issuer.token(["cnf": #"{"jkt":"\#(world.pc.identityKey.publicKey.jwkThumbprint)"}"#]),
                .tokenBoundToOtherKey
            ),
            ("of no account", try issuer.token(["sub": #""nobody""#]), .accountUnknown),
        ]
    }

    @Test func rejectedHelloServesNoMessage() async throws {
        let world = try await world()
        let thief = WireEndpoint("Thief", at: world.relayd)
        thief.steal(from: world.phone)
        var cases = try await tokens(world)
        cases.append(("another account's", world.eve.token, .tokenBoundToOtherKey))
        cases.append(("wrong scope", try world.issuer.token(["scope": #""relay.device.read relay.command""#]), .insufficientScope))
        let before = try world.dump()
        for kind in Intrusion.Kind.allCases {
            for (name, token, code) in cases {
                let message = try #require(try world.messages(kind, as: .host).first)
                thief.token = token
                let socket = try await TestWebSocket.open(try await TestSocket(port: world.relayd.port), host: world.relayd.host)
                // At once: nothing waits for the relay's answer.
                try await socket.send(try thief.hello(to: try await socket.challenge(), role: .host))
                guard case .rejected(let rejected) = try await socket.message(isWelcome: false) else {
                    Issue.record("\(kind), \(name): let in")
                    continue
                }
                #expect(rejected.code == code, "\(kind), \(name)")
                try? await socket.send(message)
                #expect(await socket.closeCode() == 1008, "\(kind), \(name)")
            }
            #expect(try world.dump() == before, "\(kind)")
        }
        for owner in [world.phone, world.pc] { #expect(try await owner.receivedMessages() == []) }
        #expect(try await world.relayd.stop() == 0)
    }

    @Test func everyMessageNeedsItsScope() async throws {
        let world = try await world()
        for scope in RelayScope.allCases {
            let others = RelayScope.allCases.filter { $0 != scope }.map(\.rawValue).joined(separator: " ")
            // A host needs the scope of those that register.
            let role: EndpointMessage.Hello.Role = scope == .deviceRegister ? .client : .host
            let reader = WireEndpoint("Reader", at: world.relayd)
            try await reader.join(try await world.relayd.run("invite", "Anna"), scope: others)
            try await reader.connect(role: role)
            let before = try world.dump()
            for kind in Intrusion.Kind.allCases {
                for message in try world.messages(kind, as: role) where kind != .hello && message.scope == scope {
                    if message.ref == nil {
                        try await reader.send(message)
                    } else {
                        guard case .failure(let failure) = try await reader.ask(message) else {
                            Issue.record("\(kind) was served")
                            continue
                        }
                        #expect(failure.code == .insufficientScope, "\(kind)")
                    }
                }
            }
            // It needs none, and is answered behind all that.
            guard case .ok = try await reader.request({ .unwatch(.init(ref: $0)) }) else {
                throw WireEndpoint.Unexpected(message: "the channel is gone")
            }
            #expect(try world.dump() == before, "\(scope)")
        }
        #expect(try await world.relayd.stop() == 0)
    }

    @Test func rejectedRefreshChangesNothing() async throws {
        let world = try await world()
        let before = try world.dump()
        for (name, token, code) in try await tokens(world) + [("another account's", world.eve.token, .tokenBoundToOtherKey)] {
            let answer = try await world.phone.request { .authRefresh(.init(ref: $0, token: Secret(token))) }
            guard case .failure(let failure) = answer else {
                Issue.record("\(name): \(answer)")
                continue
            }
            // Of an identity without an account, it is only said that it is another one.
            #expect(failure.code == (code == .accountUnknown ? .wrongAccount : code), "\(name)")
        }
        #expect(try await world.phone.receivedMessages() == [])
        // What was remembered is the revoked token.
        #expect(try world.dump().rows.subtracting(before.rows).allSatisfy { $0.hasPrefix("revoked_tokens ") })
        #expect(try await world.relayd.stop() == 0)
    }

    /// The one route that needs a token.
    @Test func rejectedTokenCreatesNoInvitation() async throws {
        let world = try await world()
        #expect(try await world.phone.invite().hasPrefix("HTTP/1.1 20"))
        let thief = WireEndpoint("Thief", at: world.relayd)
        for (name, token, _) in try await tokens(world) + [
            ("another endpoint's", world.phone.token, .tokenBoundToOtherKey), ("another issuer's", try world.issuer.token(), .wrongIssuer),
        ] {
            thief.token = token
            let status = try await thief.invite()
            #expect(status.hasPrefix("HTTP/1.1 401") || status.hasPrefix("HTTP/1.1 400"), "\(name): \(status)")
        }
        #expect(try await world.relayd.stop() == 0)
    }
}
