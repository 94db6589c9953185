// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import NIOCore
import NIOEmbedded
import NIOPosix
import Synchronization
import Testing

@testable import RelayServer

private let policy = AdmissionPolicy.standard

/// Unauthenticated connections leave the relay's time to the others.
@Suite(.timeLimit(.minutes(10))) struct AdmissionTests {
    /// Counts what is asked of the socket.
    private final class ReadCounter: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer
        var count = 0

        func read(context: ChannelHandlerContext) {
            count += 1
            context.read()
        }
    }

    /// One of so many unauthenticated connections.
    private static func unauthenticated(
        of count: Int = policy.manyUnauthenticated + 1
    ) throws -> (EmbeddedChannel, ReadCounter, PreAuthReadThrottle) {
        let all = UnauthenticatedConnections(allowed: count)
        for _ in 0..<count { _ = try #require(all.admit(nil)) }
        let (counter, reads) = (ReadCounter(), PreAuthReadThrottle(among: all))
        let channel = EmbeddedChannel()
        try channel.pipeline.syncOperations.addHandlers(counter, reads)
        return (channel, counter, reads)
    }

    private static func piece(_ count: Int) -> ByteBuffer { ByteBuffer(repeating: 7, count: count) }

    @Test func smallReadsAreDelayedAfterTheFirstFew() throws {
        let (channel, counter, _) = try Self.unauthenticated()
        for number in 1...policy.readsWithoutDelay {
            channel.read()
            #expect(counter.count == number)
            try channel.writeInbound(Self.piece(1))
        }
        for number in 1...3 {
            channel.read()
            // Asked twice is asked once.
            channel.read()
            #expect(counter.count == policy.readsWithoutDelay + number - 1)
            channel.embeddedEventLoop.advanceTime(by: policy.readDelay)
            #expect(counter.count == policy.readsWithoutDelay + number)
            try channel.writeInbound(Self.piece(1))
        }
        // All of it comes through.
        var count = 0
        while let bytes = try channel.readInbound(as: ByteBuffer.self) { count += bytes.readableBytes }
        #expect(count == policy.readsWithoutDelay + 3)
        #expect(try channel.finish().isClean)
    }

    @Test func fullReadsAndCompleteRequestsAreNotDelayed() throws {
        let (channel, counter, reads) = try Self.unauthenticated()
        for number in 1...100 {
            channel.read()
            #expect(counter.count == number)
            try channel.writeInbound(Self.piece(policy.smallRead))
        }
        for number in 1...100 {
            channel.read()
            #expect(counter.count == 100 + number)
            try channel.writeInbound(Self.piece(1))
            reads.renew()
        }
        _ = try channel.finish()
    }

    @Test func readsAreNotDelayedWithFewUnauthenticatedConnections() throws {
        let (channel, counter, _) = try Self.unauthenticated(of: policy.manyUnauthenticated)
        for number in 1...100 {
            channel.read()
            #expect(counter.count == number)
            try channel.writeInbound(Self.piece(1))
        }
        _ = try channel.finish()
    }

    @Test func readDelayEndsWithAuthentication() throws {
        let (channel, counter, reads) = try Self.unauthenticated()
        for _ in 0..<policy.readsWithoutDelay { try channel.writeInbound(Self.piece(1)) }
        channel.read()
        #expect(counter.count == 0)
        channel.pipeline.syncOperations.removeHandler(reads, promise: nil)
        #expect(counter.count == 1)
        // Nothing is asked twice.
        channel.embeddedEventLoop.advanceTime(by: policy.readDelay)
        #expect(counter.count == 1)
        _ = try channel.finish()
    }

    @Test func closedConnectionLeavesNoTimer() throws {
        let (channel, counter, _) = try Self.unauthenticated()
        for _ in 0..<policy.readsWithoutDelay { try channel.writeInbound(Self.piece(1)) }
        channel.read()
        try channel.close().wait()
        channel.embeddedEventLoop.advanceTime(by: policy.readDelay)
        #expect(counter.count == 0)
    }

    /// A listening socket whose connections come by hand.
    private struct Listener {
        let channel = EmbeddedChannel()
        let counter = ReadCounter()
        private(set) var accepted = 0
        private(set) var setUp = 0

        init() throws {
            try channel.pipeline.syncOperations.addHandlers(counter, AcceptThrottleHandler(among: UnauthenticatedConnections(allowed: 100)))
        }

        /// Asks the socket for connections, and then adds `count` connections.
        /// - Returns: `true` if the socket was asked.
        mutating func accept(_ count: Int) throws -> Bool {
            let before = counter.count
            channel.read()
            guard counter.count > before else { return false }
            try addConnections(count)
            return true
        }

        mutating func addConnections(_ count: Int, isThere: Bool = true) throws {
            for _ in 0..<count {
                let connection = EmbeddedChannel()
                if isThere { connection.remoteAddress = try SocketAddress(ipAddress: "127.0.0.1", port: 1) }
                channel.pipeline.fireChannelRead(connection as any Channel)
            }
            channel.pipeline.fireChannelReadComplete()
            accepted += count
            try readChannels()
        }

        mutating func advanceTick() throws {
            channel.embeddedEventLoop.advanceTime(by: policy.acceptPause)
            try readChannels()
        }

        private mutating func readChannels() throws {
            while try channel.readInbound(as: (any Channel).self) != nil { setUp += 1 }
        }
    }

    @Test func acceptsAndSetupsPerTickAreLimited() throws {
        var listener = try Listener()
        #expect(try listener.accept(1))
        #expect(listener.setUp == 1)
        for _ in 0..<policy.acceptedAtOnce { #expect(try listener.accept(1)) }
        #expect(try !listener.accept(1))
        #expect(listener.setUp == 1)
        let reads = listener.counter.count
        try listener.advanceTick()
        #expect(listener.setUp == 1 + policy.setUpAtOnce)
        // What was asked meanwhile, once.
        #expect(listener.counter.count == reads + 1)
    }

    @Test func closedConnectionCountsAsAccepted() throws {
        var listener = try Listener()
        try listener.addConnections(1, isThere: false)
        for _ in 0..<policy.acceptedAtOnce {
            #expect(try listener.accept(0))
            try listener.addConnections(1, isThere: false)
        }
        #expect(try !listener.accept(0))
        try listener.advanceTick()
        #expect(try listener.accept(0))
        #expect(listener.setUp == 0)
    }

    @Test func acceptQueueIsBoundedAndAllConnectionsAreSetUp() throws {
        var listener = try Listener()
        var isFull = false
        for _ in 0..<2 * policy.maximumAcceptLine {
            while try listener.accept(1) {}
            let waiting = listener.accepted - listener.setUp
            #expect(waiting <= policy.maximumAcceptLine)
            isFull = isFull || waiting == policy.maximumAcceptLine
            try listener.advanceTick()
        }
        #expect(isFull)
        for _ in 0...policy.maximumAcceptLine / policy.setUpAtOnce { try listener.advanceTick() }
        #expect(listener.setUp == listener.accepted)
    }

    /// A listening socket with an accept throttle on a loop of its own, and the number of connections that it has set up.
    private static func accepting(
        _ body: (any EventLoop, SocketAddress, @escaping @Sendable () -> Int) async throws -> Void
    ) async throws {
        final class Count: Sendable { let value = Atomic(0) }
        let count = Count()
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let listener = try await ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 512)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(AcceptThrottleHandler(among: UnauthenticatedConnections(allowed: 100)))
                }
            }
            .childChannelInitializer { channel in
                count.value.wrappingAdd(1, ordering: .relaxed)
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            .bind(host: "127.0.0.1", port: 0).get()
        try await body(listener.eventLoop, try #require(listener.localAddress)) { count.value.load(ordering: .relaxed) }
        try await listener.close()
        try await group.shutdownGracefully()
    }

    private static func connect(to address: SocketAddress) async throws -> any Channel {
        try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).connect(to: address).get()
    }

    @Test func everyConnectionIsSetUp() async throws {
        try await Self.accepting { _, address, count in
            let clients = try await withThrowingTaskGroup(of: (any Channel).self) { group in
                for _ in 0..<50 { group.addTask { try await Self.connect(to: address) } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(try await eventually { count() == 50 })
            for client in clients { try await client.close() }
        }
    }

    #if os(Linux)
    @Test func closedConnectionIsNotSetUp() async throws {
        try await Self.accepting { loop, address, count in
            let port = try #require(address.port)
            let isOver = DispatchSemaphore(value: 0)
            loop.execute { isOver.wait() }
            for _ in 0..<200 { RawSocket(port: port, patience: 10)?.reset() }
            // Behind all of them in the queue.
            let last = try await Self.connect(to: address)
            isOver.signal()
            #expect(try await eventually { count() > 0 })
            #expect(count() == 1)
            try await last.close()
        }
    }
    #endif

    @Test func memoryIsFreedAfterManyConnectionsClose() {
        let least = policy.connectionsBeforeTrim
        func worthwhile(_ counts: [Int]) -> [Int] {
            var ebb = FreedMemory.Ebb()
            return counts.indices.filter { ebb.isWorthwhile(connections: counts[$0]) }
        }
        // Coming, and a few going.
        #expect(worthwhile([0, 10, least, 5 * least, 5 * least - 10]).isEmpty)
        // Not while they are going, and once.
        #expect(worthwhile([5 * least, 2 * least, least, least - 5, least - 5, 1]) == [3])
        #expect(worthwhile([2 * least, 0, 0, 0, 2 * least, 0, 0]) == [2, 6])
        // Who watches may stop once too few are open.
        var ebb = FreedMemory.Ebb()
        let states = [0, least, least / 2, 0, 0, 0, least - 1].map { count in
            _ = ebb.isWorthwhile(connections: count)
            return ebb.mayBecomeWorthwhile
        }
        #expect(states == [false, true, true, true, false, false, false])
    }
}
