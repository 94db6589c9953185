// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// The channels of one endpoint, and the endpoints of one account, at the real service.
@Suite(.timeLimit(.minutes(10))) struct WireChannelTests {
    private func relay(_ arguments: String..., devices: Int = 1) async throws -> (RelaydProcess, [WireEndpoint]) {
        let relayd = try await RelaydProcess(arguments: arguments)
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
        var endpoints: [WireEndpoint] = []
        for number in 0..<devices {
            let endpoint = WireEndpoint("Device \(number)", at: relayd)
            try await endpoint.join(try await relayd.run("invite", "Anna"))
            endpoints.append(endpoint)
        }
        return (relayd, endpoints)
    }

    @Test func anEndpointHasOneHostAndEightClients() async throws {
        let (relayd, endpoints) = try await relay()
        let endpoint = try #require(endpoints.first)
        let first = try await endpoint.open(role: .host)
        try await endpoint.connect()
        #expect(try await first.message() == .replaced(.init()))
        #expect(await first.closeCode() == 1000)
        // A command line beside its agent.
        var clients: [TestWebSocket] = []
        for _ in 0..<8 { clients.append(try await endpoint.open(role: .client)) }
        let (_, ninth) = try await endpoint.greet(role: .client)
        guard case .rejected(let rejected) = ninth else { throw WireEndpoint.Unexpected(message: "\(ninth)") }
        #expect(rejected.code == .tooManyClients)
        #expect(rejected.retry)
        // All of the others live, and one that goes makes room.
        for client in clients {
            try await client.send(.unwatch(.init(ref: .first)))
            #expect(try await client.message() == .ok(.init(ref: .first)))
        }
        #expect(try await endpoint.receivedMessages() == [])
        try await clients[0].send(opcode: 8, [0x03, 0xE8])
        #expect(await clients[0].closeCode() == 1000)
        _ = try await endpoint.open(role: .client)
        #expect(try await relayd.stop() == 0)
    }

    @Test func revokedOrSignedOutEndpointMakesRoom() async throws {
        let (relayd, endpoints) = try await relay("--limit", "endpointsPerAccount=2", devices: 4)
        for endpoint in endpoints.prefix(2) { try await endpoint.connect() }
        for late in endpoints.dropFirst(2) {
            guard case .rejected(let rejected) = try await late.greetForItsAccount() else {
                Issue.record("there was room")
                return
            }
            #expect(rejected.code == .limitExceeded)
            #expect(rejected.limit?.name == "endpointsPerAccount")
        }
        // Shut out by another one of the account.
        let (first, second) = (endpoints[0], endpoints[1])
        guard case .ok = try await first.revoke(second) else {
            Issue.record("not revoked")
            return
        }
        #expect(await second.closeCode() == 1008)
        try await endpoints[2].connect()
        // And by itself, as an app does that signs out.
        guard case .ok = try await first.revoke(first) else {
            Issue.record("not revoked")
            return
        }
        #expect(await first.closeCode() == 1008)
        try await endpoints[3].connect()
        guard case .rejected(let rejected) = try await first.greet(role: .host).1 else {
            Issue.record("it came back")
            return
        }
        #expect(rejected.code == .endpointRevoked)
        #expect(try await relayd.stop() == 0)
    }

    @Test func stopNotifiesEveryChannelAndEnds() async throws {
        let (relayd, endpoints) = try await relay("--drain-seconds", "2", "--limit", "helloSeconds=600", devices: 3)
        var channels: [TestWebSocket] = []
        for endpoint in endpoints {
            channels.append(try await endpoint.open(role: .host))
            for _ in 0..<8 { channels.append(try await endpoint.open(role: .client)) }
        }
        #expect(channels.count == 27)
        // One that never reads, nor answers the close frame, is not waited for beyond the time set.
        let deaf = channels.removeLast()
        try await deaf.socket.stopReading()
        #expect(try await relayd.stop() == 0)
        for channel in channels {
            guard case .restarting = try await channel.nextNews() else {
                Issue.record("not notified")
                continue
            }
            #expect(await channel.closeCode() == 1012)
        }
    }
}

extension WireEndpoint {
    /// The answer to a hello for the account that the relay names.
    fileprivate func greetForItsAccount() async throws -> RelayMessage {
        do {
            _ = try await open(role: .host)
        } catch is Unexpected {
            return try await greet(role: .host).1
        }
        throw Unexpected(message: "welcome")
    }
}

extension TestWebSocket {
    /// The next message that is not about presence.
    fileprivate func nextNews() async throws -> RelayMessage {
        while true {
            switch try await message() {
            case .endpointUpdated, .endpointAdded: continue
            case let message: return message
            }
        }
    }
}
