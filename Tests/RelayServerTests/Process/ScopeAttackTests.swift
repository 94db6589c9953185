// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

/// A login that allows little wants to do more.
@Suite(.timeLimit(.minutes(10))) struct ScopeAttackTests {
    private func home() async throws -> (RelaydProcess, phone: WireEndpoint) {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
        let phone = WireEndpoint("Phone", at: relayd)
        try await phone.join(try await relayd.run("invite", "Anna"))
        try await phone.connect()
        return (relayd, phone)
    }

    private func missing(_ endpoint: WireEndpoint, _ make: (RequestRef) throws -> EndpointMessage) async throws -> String? {
        guard case .failure(let failure) = try await endpoint.request(make), failure.code == .insufficientScope else { return nil }
        return failure.message
    }

    @Test func readOnlyLoginCanOnlyRead() async throws {
        let (relayd, phone) = try await home()
        let reader = WireEndpoint("Reader", at: relayd)
        try await reader.join(try await relayd.run("invite", "Anna"), scope: "relay.device.read")
        // As a host it is one of the account's devices.
        guard case .rejected(let rejected) = try await reader.greet(role: .host).1 else {
            throw WireEndpoint.Unexpected(message: "it was accepted as a host")
        }
        #expect(rejected.code == .insufficientScope)
        #expect(rejected.message.contains("relay.device.register"))
        #expect(!rejected.retry)
        try await reader.connect(role: .client)
        guard case .ok = try await reader.request({ .watch(.init(ref: $0)) }) else {
            throw WireEndpoint.Unexpected(message: "it may not read")
        }
        let command = try reader.launch("film:1", on: phone, number: 1)
        let attempts: [(scope: String, (RequestRef) throws -> EndpointMessage)] = [
            ("relay.command", { .commandSend(.init(ref: $0, command: Blob(command.encoded))) }),
            ("relay.command", { .commandCancel(.init(ref: $0, id: command.header.id)) }),
            ("relay.command", { .tunnelOpen(.init(ref: $0, target: phone.id, timeout: 1)) }),
            ("relay.device.register", { .publish(.init(ref: $0, registration: Blob(try reader.registration("a").encoded))) }),
            (
                "relay.device.register",
                { .endpointRevoke(.init(ref: $0, endpoint: phone.id, revocation: try reader.revocation(of: phone))) }
            ),
            ("relay.device.register", { .leaving(.init(ref: $0, reason: .shutdown)) }),
            ("relay.push", { .notificationsRegister(.init(ref: $0, appID: "a", displayName: "A", channel: .polling(interval: nil))) }),
        ]
        for (scope, make) in attempts {
            let message = try await missing(reader, make)
            #expect(message?.contains(scope) == true, "\(scope)")
        }
        guard case .ok = try await phone.request({ .unwatch(.init(ref: $0)) }) else {
            throw WireEndpoint.Unexpected(message: "the phone is gone")
        }
        #expect(try await relayd.stop() == 0)
    }

    /// A channel can do what its newest token allows, and no more.
    @Test func newestTokenDeterminesTheScopesOfAChannel() async throws {
        let (relayd, phone) = try await home()
        let pc = WireEndpoint("PC", at: relayd)
        try await pc.join(try await relayd.run("invite", "Anna"))
        try await pc.connect()
        let all = pc.token
        try await pc.join(try await relayd.run("invite", "Anna"), scope: "relay.device.register relay.device.read")
        let target = phone.id
        func open() async throws -> String? {
            try await missing(pc) { .tunnelOpen(.init(ref: $0, target: target, timeout: 1)) }
        }
        #expect(try await open() == nil)
        for (token, isRefused) in [(pc.token, true), (all, false)] {
            guard case .ok = try await pc.request({ .authRefresh(.init(ref: $0, token: Secret(token))) }) else {
                throw WireEndpoint.Unexpected(message: "not refreshed")
            }
            #expect((try await open() != nil) == isRefused)
        }
        #expect(try await relayd.stop() == 0)
    }
}
