// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// At the real service: a new endpoint tries to revoke others, and a revoked one tries to return.
@Suite(.timeLimit(.minutes(10))) struct RevokedDeviceAttackTests {
    /// A relay with an approved phone and PC, in this order.
    private func home() async throws -> (RelaydProcess, phone: WireEndpoint, pc: WireEndpoint) {
        let relayd = try await RelaydProcess(arguments: ["--limit", "publishesPerSecond=1000"])
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
        let (phone, pc) = (WireEndpoint("Phone", at: relayd), WireEndpoint("PC", at: relayd))
        for endpoint in [phone, pc] {
            try await endpoint.join(try await relayd.run("invite", "Anna"))
            try await endpoint.connect()
        }
        guard case .ok = try await phone.approve(pc) else { throw WireEndpoint.Unexpected(message: "not approved") }
        return (relayd, phone, pc)
    }

    private func isAlive(_ endpoint: WireEndpoint) async throws -> Bool {
        if case .ok = try await endpoint.request({ .unwatch(.init(ref: $0)) }) { true } else { false }
    }

    @Test func newcomerWithALeakedLinkCannotRevoke() async throws {
        let (relayd, phone, pc) = try await home()
        let thief = WireEndpoint("Thief", at: relayd)
        try await thief.join(try await relayd.run("invite", "Anna"))
        try await thief.connect()
        for victim in [phone, pc] {
            guard case .failure(let failure) = try await thief.revoke(victim) else {
                Issue.record("a newcomer revoked a known device")
                continue
            }
            #expect(failure.code == .notEstablished)
            #expect(failure.message.contains("approve"))
            #expect(try await isAlive(victim))
            try await victim.connect()
        }
        #expect(try await relayd.stop() == 0)
    }

    @Test func thiefWithATokenCannotRevoke() async throws {
        let (relayd, phone, pc) = try await home()
        let loose = WireEndpoint("Loose", at: relayd)
        try await loose.join(try await relayd.run("invite", "Anna"), isBound: false)
        let thief = WireEndpoint("Thief", at: relayd)
        thief.steal(from: loose)
        try await thief.connect()
        guard case .failure(let failure) = try await thief.revoke(pc) else { throw WireEndpoint.Unexpected(message: "revoked") }
        #expect(failure.code == .notEstablished)
        // In the phone's name, with a statement that the phone has made for another.
        let other = WireEndpoint("Other", at: relayd)
        let genuine = try phone.revocation(of: other)
        for statement in [genuine, try thief.revocation(of: pc, account: "elsewhere"), Blob([1, 2, 3])] {
            let answer = try await thief.request { .endpointRevoke(.init(ref: $0, endpoint: pc.id, revocation: statement)) }
            guard case .failure(let failure) = answer else { throw WireEndpoint.Unexpected(message: "\(answer)") }
            #expect([.signatureInvalid, .malformed].contains(failure.code))
        }
        // The thief goes, and the token with it.
        guard case .ok = try await phone.revoke(thief) else { throw WireEndpoint.Unexpected(message: "not revoked") }
        #expect(await thief.closeCode() == 1008)
        for endpoint in [phone, pc] { #expect(try await isAlive(endpoint)) }
        let next = WireEndpoint("Next", at: relayd)
        next.steal(from: thief)
        // The issuer is notified after the relay's commit.
        for _ in 0..<6_000 {
            guard case .welcome = try await next.greet(role: .client).1 else { break }
            try await Task.sleep(for: .milliseconds(10))
        }
        try await refused(next, .tokenRevoked)
        #expect(try await relayd.stop() == 0)
    }

    @Test func revokedDeviceCannotUseAnyOfItsLogins() async throws {
        let (relayd, phone, pc) = try await home()
        // A second login of the same device.
        let second = pc.refreshToken
        try await pc.join(try await relayd.run("invite", "Anna"))
        try await pc.connect()
        #expect(try await pc.invite() == "HTTP/1.1 200 OK")
        guard case .ok = try await phone.revoke(pc) else { throw WireEndpoint.Unexpected(message: "not revoked") }
        #expect(await pc.closeCode() == 1008)
        try await refused(pc, .endpointRevoked)
        let ended = "HTTP/1.1 400 Bad Request"
        // The issuer is notified after the relay's commit.
        var status = try await pc.refreshStatus()
        for _ in 0..<6_000 where status != ended {
            try await Task.sleep(for: .milliseconds(10))
            status = try await pc.refreshStatus()
        }
        #expect(status == ended)
        #expect(try await pc.refreshStatus(second) == ended)
        #expect(try await pc.invite() == "HTTP/1.1 401 Unauthorized")
        // Also not at the next start of the relay.
        #expect(try await relayd.stop() == 0)
        _ = try await relayd.start()
        #expect(try await pc.refreshStatus() == ended)
        try await refused(pc, .endpointRevoked)
        try await phone.connect()
        #expect(try await phone.refreshStatus() == "HTTP/1.1 200 OK")
        #expect(try await relayd.stop() == 0)
    }

    private func refused(_ endpoint: WireEndpoint, _ code: ControlErrorCode) async throws {
        guard case .rejected(let rejected) = try await endpoint.greet(role: .host).1 else {
            throw WireEndpoint.Unexpected(message: "it was accepted")
        }
        #expect(rejected.code == code)
    }
}
