// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix
import RelayProtocol
import Testing

@testable import DeviceRelay

/// Sessions that go on over other streams, over real sockets and TLS.
@Suite(.timeLimit(.minutes(5))) struct SessionStreamTests {
    /// Two endpoints whose session moves between tunnels.
    private struct World: Sendable {
        let relay: TestTunnelRelay
        let loop: any EventLoop
        let opener: SessionSide
        let target: SessionSide
        let session: PeerSession
        let targetSession: PeerSession

        init(_ services: [AppService]) async throws {
            relay = try await TestTunnelRelay()
            loop = MultiThreadedEventLoopGroup.singleton.next()
            opener = try SessionSide(canMove: true, services: services)
            target = try SessionSide(canMove: true, services: services)
            let tunnel = relay.tunnel(on: loop)
            let (opener, target) = (opener, target)
            async let accepted = target.connector.acceptSession(over: tunnel.target) { $0 == opener.id }
            session = try await opener.connector.open(to: target.id, over: tunnel.opener)
            targetSession = try await accepted
        }

        /// Moves the session to a new tunnel.
        /// - Parameter isDirect: Whether both sides take it for a direct path.
        func move(by connector: SessionConnector? = nil, directly isDirect: Bool = false) async throws {
            let tunnel = relay.tunnel(on: loop)
            let sides = (opener.connector, target.connector)
            let connectors = isDirect ? (sides.0.direct(admitting: opener.admit), sides.1.direct(admitting: target.admit)) : sides
            async let accepted = connectors.1.accept(over: tunnel.target) { _ in true }
            try await (connector ?? connectors.0).move(session, over: tunnel.opener)
            guard case .moved(let moved) = try await accepted else {
                Issue.record("the session has not moved")
                return
            }
            #expect(moved === targetSession)
        }

        /// Whether the opener reads what arrives.
        func readsOpener(_ reads: Bool) async {
            await withCheckedContinuation { continuation in
                session.link.enqueue { handler in
                    handler.stream?.holdReading(!reads)
                    continuation.resume()
                }
            }
        }

        func end() async {
            await session.shutDown()
            await targetSession.shutDown()
            #expect(await Inventory.settled(session).isEmpty)
            #expect(await Inventory.settled(targetSession).isEmpty)
            await relay.stop()
        }
    }

    private static func isLost(_ session: PeerSession) async { #expect(await session.needsStream()) }

    @Test func aCallEndsOnAnotherStream() async throws {
        let (asked, isAllowed) = (Signal(), Signal())
        let slow = AppService("slow") { connection, _ in
            try await connection.respond(concurrently: 1) { request in
                asked.happen()
                await isAllowed.wait()
                return request.message
            }
        }
        let world = try await World([slow])
        let connection = try await world.session.open(AppServiceInfo(name: "slow", appID: "com.example.app"), timeout: .seconds(30))
        async let answer = connection.send(["a": 1])
        await asked.wait()
        try await world.relay.breakOff()
        await Self.isLost(world.session)
        await Self.isLost(world.targetSession)
        // The answer waits for a stream.
        isAllowed.happen()
        try await world.move()
        #expect(try await answer == ["a": 1])
        // Without a break, too.
        try await world.move()
        #expect(try await connection.send(["b": 2]) == ["b": 2])
        #expect(world.session.moves == 2 && world.targetSession.moves == 2)
        await world.end()
    }

    @Test func messagesOfBothSidesArriveOnceAndInOrderAcrossBreaks() async throws {
        let count = 300
        let received = Shared<[[Int]]>([[], []])
        let progress = CurrentValue(0)
        let service = AppService("test") { connection, _ in
            try await connection.respond(concurrently: 1) { request in
                let (side, number) = (request.message["side"]?.int ?? 0, request.message["number"]?.int ?? 0)
                received.withLock { $0[side].append(number) }
                progress.update { $0 += 1 }
                return request.message
            }
        }
        let world = try await World([service])
        try await withThrowingTaskGroup { group in
            for (side, session) in [world.session, world.targetSession].enumerated() {
                group.addTask {
                    let connection = try await session.open(SessionWorld.info, timeout: .seconds(60))
                    for number in 0..<count {
                        // Some messages are announced.
                        let bytes = number % 50 == 7 ? 100_000 : 10
                        let message: ValueSet = [
                            "side": .int(Int64(side)), "number": .int(Int64(number)),
                            "content": .data(Array(repeating: UInt8(number & 0xFF), count: bytes)),
                        ]
                        #expect(try await connection.send(message, timeout: .seconds(60)) == message)
                    }
                }
            }
            group.addTask {
                for round in 1...8 {
                    _ = await progress.first { $0 >= round * 60 }
                    if round % 2 == 0 {
                        try await world.relay.breakOff()
                        await Self.isLost(world.session)
                        await Self.isLost(world.targetSession)
                    }
                    try await world.move()
                }
            }
            try await group.waitForAll()
        }
        #expect(received.value == [Array(0..<count), Array(0..<count)])
        #expect(world.session.moves == 8)
        await world.end()
    }

    @Test func anotherPeerCannotTakeASession() async throws {
        let world = try await World([.echo()])
        let thief = try SessionSide(canMove: true)
        let connection = try await world.session.open(SessionWorld.info, timeout: .seconds(30))
        // The thief knows the id, and proves its own key.
        await #expect(throws: AppServiceError.self) { try await world.move(by: thief.connector) }
        #expect(try await connection.send(["a": 1]) == ["a": 1])
        #expect(world.targetSession.moves == 0 && world.session.moves == 0)
        try await world.move()
        #expect(try await connection.send(["a": 2]) == ["a": 2])
        await world.end()
    }

    @Test func aMoveToAStreamThatBreaksChangesNothing() async throws {
        let world = try await World([.echo()])
        let connection = try await world.session.open(SessionWorld.info, timeout: .seconds(30))
        let tunnel = world.relay.tunnel(on: world.loop)
        // Whoever answers knows no session.
        let other = try SessionSide(key: world.target.key, canMove: true)
        async let accepted = code { () async throws(AppServiceError) in
            try await other.connector.accept(over: tunnel.target) { _ in true }
        }
        #expect(
            await code { () async throws(AppServiceError) in try await world.opener.connector.move(world.session, over: tunnel.opener) }
                != nil
        )
        #expect(await accepted != nil)
        #expect(try await connection.send(["a": 1]) == ["a": 1])
        await world.end()
    }

    @Test func aRestartedPeerEndsTheSession() async throws {
        let world = try await World([.echo()])
        let connection = try await world.session.open(SessionWorld.info, timeout: .seconds(30))
        try await world.relay.breakOff()
        await Self.isLost(world.session)
        let tunnel = world.relay.tunnel(on: world.loop)
        let restarted = try SessionSide(key: world.target.key, canMove: true)
        async let call = code { () async throws(AppServiceError) in try await connection.send(["a": 1]) }
        async let accepted = code { () async throws(AppServiceError) in
            try await restarted.connector.accept(over: tunnel.target) { _ in true }
        }
        #expect(
            await code { () async throws(AppServiceError) in try await world.opener.connector.move(world.session, over: tunnel.opener) }
                != nil
        )
        #expect(await accepted != nil)
        #expect(await call == .remoteSystemUnavailable)
        #expect(world.session.hasEnded)
        await world.end()
    }

    @Test func aSessionWithoutAStreamShutsDownAtOnce() async throws {
        let world = try await World([.echo()])
        let connection = try await world.session.open(SessionWorld.info, timeout: .seconds(30))
        try await world.relay.breakOff()
        await Self.isLost(world.session)
        async let call = code { () async throws(AppServiceError) in try await connection.send(["a": 1]) }
        while await world.session.inventory()["asks"] != 1 { await Task.yield() }
        await world.end()
        #expect(await call != nil)
    }

    /// The peer reads nothing, so an answer is left over while the session shuts down.
    @Test func aSessionThatShutsDownWaitsForNoOtherStream() async throws {
        let (asked, isAllowed) = (Signal(), Signal())
        let large = AppService("large") { connection, _ in
            try await connection.respond(concurrently: 1) { _ in
                asked.happen()
                await isAllowed.wait()
                return ["content": .data(Array(repeating: 1, count: 4 << 20))]
            }
        }
        let world = try await World([large])
        let connection = try await world.session.open(AppServiceInfo(name: "large", appID: "com.example.app"), timeout: .seconds(30))
        async let call = code { () async throws(AppServiceError) in try await connection.send(["a": 1]) }
        await asked.wait()
        await world.readsOpener(false)
        isAllowed.happen()
        while await world.targetSession.inventory()["responses"] != 1 { await Task.yield() }
        let ends = OneShot<[SessionEnd?]>()
        world.targetSession.link.enqueue { handler in
            handler.shutDown("")
            let before = handler.machine.end
            handler.change { $0.streamEnded(at: $1, into: &$2) }
            ends.settle([before, handler.machine.end])
        }
        #expect(await ends.wait() == [nil, .connectionLost])
        await world.readsOpener(true)
        await world.end()
        #expect(await call != nil)
    }

    @Test func aSessionThatLeavesItsStreamLosesNothing() async throws {
        let (asked, isAllowed) = (Signal(), Signal())
        let slow = AppService("slow") { connection, _ in
            try await connection.respond(concurrently: 1) { _ in
                asked.happen()
                await isAllowed.wait()
                return ["done": true]
            }
        }
        let world = try await World([slow])
        let connection = try await world.session.open(AppServiceInfo(name: "slow", appID: "com.example.app"), timeout: .seconds(30))
        async let answer = connection.send(["a": 1])
        await asked.wait()
        try await world.move(directly: true)
        // An earlier stream, which is left already.
        world.session.leaveStream(unlessMovedSince: 0)
        _ = await world.session.inventory()
        #expect(world.session.hasStream && world.session.isDirect)
        world.session.leaveStream(unlessMovedSince: 1)
        await Self.isLost(world.session)
        await Self.isLost(world.targetSession)
        isAllowed.happen()
        try await world.move()
        #expect(try await answer == ["done": true])
        await world.end()
    }

    @Test func aConnectionSaysWhetherItsPathIsDirect() async throws {
        let world = try await World([.echo()])
        let connection = try await world.session.open(SessionWorld.info, timeout: .seconds(30))
        func isProximal() -> [Bool] { [RemoteSystemConnectionInfo(connection).isProximal, world.session.isDirect] }
        #expect(isProximal() == [false, false] && !world.targetSession.isDirect)
        try await world.move(directly: true)
        #expect(isProximal() == [true, true] && world.targetSession.isDirect)
        // Without a path it is not direct.
        try await world.relay.breakOff()
        await Self.isLost(world.session)
        await Self.isLost(world.targetSession)
        #expect(isProximal() == [false, false] && !world.targetSession.isDirect)
        try await world.move()
        #expect(isProximal() == [false, false] && !world.targetSession.isDirect)
        await world.end()
    }
}
