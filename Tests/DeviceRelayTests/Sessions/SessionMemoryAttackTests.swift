// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import RelayProtocol
import Testing

@testable import DeviceRelay

/// A known device that wants this one to run out of memory. Where memory is measured, it is that of a process of its own.
@Suite(.timeLimit(.minutes(10))) struct SessionMemoryAttackTests {
    private static let empty = SessionFrame.Message.inline(ByteBuffer(bytes: [0xA0]))
    private static let wanted = 150 << 20

    /// A message of so many zeros, 256 at least, each a byte on the wire.
    private static func zeros(_ count: Int) -> ByteBuffer {
        var message = ByteBuffer(bytes: [0xA1, 0x61, 0x61])
        if let count = UInt16(exactly: count) {
            message.writeInteger(UInt8(0x99))
            message.writeInteger(count)
        } else {
            message.writeInteger(UInt8(0x9A))
            message.writeInteger(UInt32(count))
        }
        message.writeRepeatingByte(0, count: count)
        return message
    }

    #if os(Linux)
    /// The memory of this process that is in use.
    private static func residentBytes() throws -> Int {
        let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") })
        return try #require(Int(line.split(separator: " ").dropLast().last ?? "")) << 10
    }

    /// Another device is served as before, with large messages too.
    private static func otherIsServed(_ relay: TestTunnelRelay, by target: SessionSide) async throws {
        let tunnel = relay.tunnel()
        async let accepted = target.connector.acceptSession(over: tunnel.target) { _ in true }
        let session = try await SessionSide().connector.open(to: target.id, over: tunnel.opener)
        let connection = try await session.open(AppServiceInfo(name: "echo", appID: "com.example.app"), timeout: .seconds(60))
        let large: ValueSet = ["Data": .data(Array(repeating: 1, count: 2 << 20))]
        for message in [["Text": "small"], large] {
            #expect(try await connection.send(message, timeout: .seconds(60)) == message)
        }
        await session.shutDown()
        _ = try await accepted
    }

    private static func attackWithAnswersThatAreNeverTaken() async throws {
        let relay = try await TestTunnelRelay()
        let service = AppService("test") { connection, _ in
            try await connection.respond { _ in ["Data": .data(Array(repeating: 1, count: 1 << 20))] }
        }
        let target = try SessionSide(services: [service, .echo("echo")])
        try await otherIsServed(relay, by: target)
        let before = try residentBytes()
        let peer = try await ScriptedPeer.connect(relay, to: target) { frame in
            // Asks as soon as it may, and grants nothing.
            guard case .opened = frame.payload else { return [] }
            return (1...16).map { SessionFrame(.request(empty, timeLeft: nil), connection: frame.connection, number: UInt32($0)) }
        }
        peer.open(60)
        // As many answers as fit into the session's part, and all that are being handled wait.
        while await peer.session.inventory()["responses"] ?? 0 < 31 || target.memory.answers.free > 98 << 20 { await Task.yield() }
        try await otherIsServed(relay, by: target)
        #expect(try residentBytes() - before < wanted)
        try? await peer.channel.close().get()
        await target.hasFree(128 << 20)
        try await otherIsServed(relay, by: target)
        #expect(try residentBytes() - before < wanted)
    }

    private static func attackWithMessagesThatGrow() async throws {
        let relay = try await TestTunnelRelay()
        // It keeps its requests as long as there is a connection.
        let service = AppService("test") { connection, _ in
            try await connection.respond { request in
                await Signal().wait()
                return request.message
            }
        }
        let target = try SessionSide(services: [service, .echo("echo")])
        try await otherIsServed(relay, by: target)
        let before = try residentBytes()
        let message = zeros(1 << 20)
        let peer = try await ScriptedPeer.connect(relay, to: target) { frame in
            switch frame.payload {
            case .opened:
                (1...16).map {
                    let request = SessionFrame.Payload.request(.announced(message.readableBytes), timeLeft: nil)
                    return SessionFrame(request, connection: frame.connection, number: UInt32($0))
                }
            case .grant(.request): ScriptedPeer.data(message, for: frame)
            default: []
            }
        }
        peer.open(16)
        // One is decoded, and no other fits beside it; as many as may have arrived.
        while target.memory.decoded.free > 105 << 20 || target.memory.requests.free > 98 << 20 { await Task.yield() }
        try await otherIsServed(relay, by: target)
        #expect(try residentBytes() - before < wanted)
        try? await peer.channel.close().get()
        await target.hasFree(128 << 20)
        try await otherIsServed(relay, by: target)
        #expect(try residentBytes() - before < wanted)
    }

    @Test func unreadResponsesUseNoMoreThanTheSessionBudget() async {
        await #expect(processExitsWith: .success) { try await SessionMemoryAttackTests.attackWithAnswersThatAreNeverTaken() }
    }

    @Test func expandingMessagesUseNoMoreThanTheSessionBudget() async {
        await #expect(processExitsWith: .success) { try await SessionMemoryAttackTests.attackWithMessagesThatGrow() }
    }
    #endif

    /// Several sessions give a peer no more memory than one. It sends nothing of what it announces, keeps handlers busy with what it has sent,
    /// and takes no answer.
    @Test func sessionsOfAPeerShareOneMemoryBudget() async throws {
        var limits = Limits()
        limits[.messageBytes] = 64 << 10
        limits[.assemblyBytesPerSession] = 128 << 10
        limits[.assemblyBytesPerEndpoint] = 512 << 10
        let (large, goOn) = (Self.zeros(60 << 10), Signal())
        let hold = AppService("hold") { connection, _ in
            try await connection.respond { _ in
                await goOn.wait()
                return [:]
            }
        }
        let give = AppService("give") { connection, _ in
            try await connection.respond { _ in ["Data": .data(Array(repeating: 1, count: 60 << 10))] }
        }
        let relay = try await TestTunnelRelay()
        let target = try SessionSide(limits: limits, services: [hold, give, .echo("echo")])
        let certificate = try TestCertificate()
        // 40 KiB of memory each when it is decoded.
        let grows = Self.zeros(1_800)
        var peers: [ScriptedPeer] = []
        for _ in 0..<4 {
            let peer = try await ScriptedPeer.connect(relay, to: target, as: certificate) { frame in
                guard case .opened = frame.payload else { return [] }
                return switch frame.connection {
                case ScriptedPeer.id(0): (1...8).map { ScriptedPeer.request(.inline(grows), $0, on: 0) }
                case ScriptedPeer.id(1): (1...8).map { ScriptedPeer.request(Self.empty, $0, on: 1) }
                default: (1...8).map { ScriptedPeer.request(.announced(large.readableBytes), $0, on: 2) }
                }
            }
            peer.send([ScriptedPeer.open(0, to: "hold"), ScriptedPeer.open(1, to: "give"), ScriptedPeer.open(2, to: "hold")])
            peers.append(peer)
        }
        // All that it asks for is there, and it holds all that it can.
        for peer in peers {
            var inventory = await peer.session.inventory()
            while inventory["exchanges", default: 0] + inventory["responses", default: 0] < 16 || inventory["bytes", default: 0] < 60 << 10
            {
                await Task.yield()
                inventory = await peer.session.inventory()
            }
        }
        let memory = target.memory
        while max(memory.requests.free, memory.decoded.free, memory.answers.free) > 410_000 { await Task.yield() }
        for _ in 0..<200 {
            for peer in peers { _ = await peer.session.inventory() }
        }
        try #require(memory.freeBytes >= 384 << 10)
        // Another peer's large messages pass.
        let tunnel = relay.tunnel()
        async let accepted = target.connector.acceptSession(over: tunnel.target) { _ in true }
        let session = try await SessionSide(limits: limits).connector.open(to: target.id, over: tunnel.opener)
        _ = try await accepted
        let connection = try await session.open(AppServiceInfo(name: "echo", appID: "com.example.app"), timeout: .seconds(60))
        let message = try SessionExchangeTests.message(encodedBytes: 60 << 10)
        for _ in 0..<10 { #expect(try await connection.send(message, timeout: .seconds(300)) == message) }
        await session.shutDown()
        goOn.happen()
        for peer in peers { try? await peer.channel.close().get() }
        await target.hasFree(512 << 10)
        await relay.stop()
    }

    /// What a peer may send within its windows, without asking, is bounded over all connections and sessions.
    @Test func waitingMessagesAreBoundedOverAllConnections() async throws {
        let (message, count) = (ByteBuffer(repeating: 0x40, count: 31 << 10), 8)
        let stalled = AppService("test") { connection, _ in _ = try await connection.closed }
        let relay = try await TestTunnelRelay()
        let target = try SessionSide(services: [stalled, .echo("echo")])
        let certificate = try TestCertificate()
        let refused = Shared(0)
        var peers: [ScriptedPeer] = []
        for _ in 0..<2 {
            let peer = try await ScriptedPeer.connect(relay, to: target, as: certificate) { frame in
                switch frame.payload {
                case .opened:
                    return (1...count).map {
                        SessionFrame(.request(.inline(message), timeLeft: nil), connection: frame.connection, number: UInt32($0))
                    }
                case .error(let failure):
                    #expect(failure.code == .resourceLimitsExceeded)
                    refused.withLock { $0 += 1 }
                default: break
                }
                return []
            }
            peer.open(100)
            peers.append(peer)
        }
        // Each request waits, or was refused.
        var (waiting, bytes) = (0, 0)
        while waiting + refused.value < 200 * count {
            await Task.yield()
            (waiting, bytes) = (0, 0)
            for peer in peers {
                let inventory = await peer.session.inventory()
                waiting += inventory["exchanges", default: 0]
                bytes += inventory["bytes", default: 0]
            }
        }
        #expect(bytes + waiting * PendingMemory.requestBytes <= 32 << 20)
        #expect(refused.value > 0)
        #expect(target.memory.pending.free >= 96 << 20)
        // Another peer's requests pass.
        let tunnel = relay.tunnel()
        async let accepted = target.connector.acceptSession(over: tunnel.target) { _ in true }
        let session = try await SessionSide().connector.open(to: target.id, over: tunnel.opener)
        _ = try await accepted
        let connection = try await session.open(AppServiceInfo(name: "echo", appID: "com.example.app"), timeout: .seconds(60))
        let other = try SessionExchangeTests.message(encodedBytes: 30 << 10)
        try await SessionRespondingTests.sendAtOnce(200, on: connection)
        for _ in 0..<20 { #expect(try await connection.send(other, timeout: .seconds(300)) == other) }
        await session.shutDown()
        for peer in peers { try? await peer.channel.close().get() }
        while target.memory.pending.free != 128 << 20 { await Task.yield() }
        await relay.stop()
    }

    @Test func requestAboveTheMemoryBudgetIsRefusedBeforeDecoding() async throws {
        let relay = try await TestTunnelRelay()
        let handled = Shared(0)
        let service = AppService("test") { connection, _ in
            try await connection.respond { request in
                handled.withLock { $0 += 1 }
                return [:]
            }
        }
        let target = try SessionSide(services: [service])
        let message = Self.zeros((1 << 21) - 2)
        let failures = AsyncStream.makeStream(of: SessionFailure.self)
        let peer = try await ScriptedPeer.connect(relay, to: target) { frame in
            switch frame.payload {
            case .opened:
                return [SessionFrame(.request(.announced(message.readableBytes), timeLeft: nil), connection: frame.connection, number: 1)]
            case .grant(.request): return ScriptedPeer.data(message, for: frame)
            case .error(let failure): failures.continuation.yield(failure)
            default: break
            }
            return []
        }
        peer.open(1)
        var reasons = failures.stream.makeAsyncIterator()
        let reason = await reasons.next()
        #expect(reason?.code == .messageTooLarge)
        #expect(reason?.message.contains(Limit.assemblyBytesPerSession.rawValue) == true)
        #expect(handled.value == 0)
        await target.hasFree(128 << 20)
        try? await peer.channel.close().get()
        await relay.stop()
    }

    @Test func responseAboveTheMemoryBudgetFailsAtTheCaller() async throws {
        let answer = ValueSet.Value.array(Array(repeating: .int(0), count: (1 << 21) - 2))
        let service = AppService("test") { connection, _ in try await connection.respond { _ in ["a": answer] } }
        try await SessionWorld.with(services: [service]) { world in
            let connection = try await world.open()
            #expect(await code { () async throws(AppServiceError) in try await connection.send([:]) } == .messageTooLarge)
            await world.opener.hasFree(128 << 20)
        }
    }

    /// To ask and to take it back must not make room for more while the handler still has the message.
    @Test func cancelledRequestCountsUntilItsHandlerReturns() async throws {
        let relay = try await TestTunnelRelay()
        let (began, goOn) = (Signal(), Signal())
        let service = AppService("test") { connection, _ in
            try await connection.respond { request in
                began.happen()
                // It does not look whether it is cancelled.
                await Task { await goOn.wait() }.value
                return ["Count": .int(Int64(request.message.count))]
            }
        }
        let target = try SessionSide(services: [service])
        let message = Self.zeros(100_000)
        let peer = try await ScriptedPeer.connect(relay, to: target) { frame in
            switch frame.payload {
            case .opened:
                [SessionFrame(.request(.announced(message.readableBytes), timeLeft: nil), connection: frame.connection, number: 1)]
            case .grant(.request): ScriptedPeer.data(message, for: frame)
            default: []
            }
        }
        peer.open(1)
        await began.wait()
        let held = target.memory.decoded.free
        #expect(held <= 128 << 20 - 2_300_000)
        peer.send([SessionFrame(.cancel, connection: ScriptedPeer.id(0), number: 1)])
        while await peer.session.inventory()["exchanges"] != nil { await Task.yield() }
        #expect(target.memory.decoded.free == held)
        goOn.happen()
        await target.hasFree(128 << 20)
        try? await peer.channel.close().get()
        await relay.stop()
    }

    @Test func handlersAreBoundedOverAllConnections() async throws {
        let relay = try await TestTunnelRelay()
        let (running, goOn) = (Shared(0), Signal())
        let slow = AppService("test") { connection, _ in
            try await connection.respond { _ in
                running.withLock { $0 += 1 }
                await goOn.wait()
                return [:]
            }
        }
        let target = try SessionSide(services: [slow, .echo("echo")])
        let echoed = Signal()
        let responses = Shared(0)
        let peer = try await ScriptedPeer.connect(relay, to: target) { frame in
            switch frame.payload {
            case .opened where frame.connection == ScriptedPeer.id(100): return [ScriptedPeer.request(Self.empty, 1, on: 100)]
            case .opened:
                return (1...16).map { SessionFrame(.request(Self.empty, timeLeft: nil), connection: frame.connection, number: $0) }
            case .response where frame.connection == ScriptedPeer.id(100): echoed.happen()
            case .response: responses.withLock { $0 += 1 }
            default: break
            }
            return []
        }
        peer.open(40)
        while await peer.session.inventory()["exchanges"] != 640 { await Task.yield() }
        while running.value < HandlerLimiter.defaultLimit { await Task.yield() }
        // Another service of the same session is not held up.
        peer.send([ScriptedPeer.open(100, to: "echo")])
        await echoed.wait()
        #expect(running.value == HandlerLimiter.defaultLimit)
        // All requests are handled.
        goOn.happen()
        while responses.value < 640 { await Task.yield() }
        #expect(running.value == 640)
        try? await peer.channel.close().get()
        await relay.stop()
    }
}
