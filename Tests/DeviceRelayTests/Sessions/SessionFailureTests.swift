// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import NIOCore
import NIOSSL
import RelayProtocol
import RelayTesting
import Testing

/// Peers that go away, or misbehave, at every stage.
@Suite(.timeLimit(.minutes(10))) struct SessionFailureTests {
    typealias Life = SessionLifeTests

    @Test func openingFailsWithoutAPeer() async throws {
        let (opener, target) = (try SessionSide(), try SessionSide())
        let relay = try await TestTunnelRelay()
        let late = await code { () async throws(AppServiceError) in
            try await opener.connector.open(to: target.id, over: relay.tunnel().opener, timeout: .milliseconds(50))
        }
        #expect(late == .timedOut)
        await relay.stop()
        for isCancelled in [false, true] {
            let relay = try await TestTunnelRelay()
            let opening = Task {
                await code { () async throws(AppServiceError) in try await opener.connector.open(to: target.id, over: relay.tunnel().opener)
                }
            }
            while try await relay.counts.accepted < 1 { await Task.yield() }
            if isCancelled { opening.cancel() } else { try await relay.breakOff() }
            #expect(await opening.value == (isCancelled ? .cancelled : .remoteSystemUnavailable))
            try await relay.whenAllClosed()
            await relay.stop()
        }
    }

    enum Handshake: CaseIterable {
        case garbage, broken, cancelled
    }

    @Test(arguments: Handshake.allCases) func peerEndsDuringTheHandshake(_ kind: Handshake) async throws {
        let relay = try await TestTunnelRelay()
        let (opener, target) = (try SessionSide(), try SessionSide())
        let tunnel = relay.tunnel()
        let opening = Task {
            await code { () async throws(AppServiceError) in try await opener.connector.open(to: target.id, over: tunnel.opener) }
        }
        let channel = try await tunnel.target.connect(timeout: .seconds(10)) { channel in
            try channel.pipeline.syncOperations.addHandler(QuietHandler())
        }
        switch kind {
        case .garbage:
            try await channel.writeAndFlush(ByteBuffer(string: "HTTP/1.1 400 Bad Request\r\n\r\n")).get()
            #expect(await opening.value == .authenticationError)
        case .broken:
            try await channel.close().get()
            #expect(await opening.value == .remoteSystemUnavailable)
        case .cancelled:
            opening.cancel()
            #expect(await opening.value == .cancelled)
        }
        try await relay.whenAllClosed()
        await relay.stop()
    }

    @Test func brokenStreamEndsAllRequests() async throws {
        let (service, stream) = Life.waiting()
        let closures = AsyncStream.makeStream(of: AppServiceClosure.self)
        let idle = AppService("idle") { connection, _ in closures.continuation.yield(try await connection.closed) }
        let slow = AppService("slow") { connection, _ in
            // Never uses the connection, as far as the caller sees.
            while !Task.isCancelled, connection.info.name == "slow" { try await Task.sleep(for: .milliseconds(5)) }
        }
        let large = try SessionExchangeTests.message(encodedBytes: 16 << 20)
        try await SessionWorld.with(services: [service, idle, slow]) { world in
            var events = stream.makeAsyncIterator()
            let connection = try await world.open()
            let resting = try await world.open("idle")
            let call = Task { await Life.send(connection) }
            #expect(await events.next() == "request")
            let opening = Task { await code { () async throws(AppServiceError) in try await world.open("slow") } }
            while await world.targetSession.inventory()["services"] != 3 { await Task.yield() }
            try await world.relay.hold(true)
            let largeCall = Task { await Life.send(connection, large) }
            while await world.session.inventory()["asks"] != 3 { await Task.yield() }

            try await world.relay.breakOff()
            #expect(await call.value == .remoteSystemUnavailable)
            #expect(await largeCall.value == .remoteSystemUnavailable)
            #expect(await opening.value == .remoteSystemUnavailable)
            #expect(try await resting.closed.status == .remoteSystemUnavailable)
            #expect(await events.next() == "cancelled true")
            var ends = closures.stream.makeAsyncIterator()
            #expect(await ends.next()?.status == .remoteSystemUnavailable)
            #expect(await world.session.ended() == .connectionLost)
            #expect(await world.targetSession.ended() == .connectionLost)
            #expect(await Life.send(connection) == .remoteSystemUnavailable)
            #expect(await code { () async throws(AppServiceError) in try await world.open() } == .remoteSystemUnavailable)
            #expect(await Inventory.settled(world.session).isEmpty)
            // Ends the service that looks at nothing else.
            await world.targetSession.shutDown()
            #expect(await Inventory.settled(world.targetSession).isEmpty)
            await world.target.hasFree(128 << 20)
        }
    }

    @Test func brokenStreamEndsALargeResponse() async throws {
        let large = try SessionExchangeTests.message(encodedBytes: 16 << 20)
        let codes = AsyncStream.makeStream(of: AppServiceError.Code?.self)
        let taken = Signal()
        let goOn = Signal()
        let service = AppService("test") { connection, _ in
            for await request in connection.requests {
                taken.happen()
                await goOn.wait()
                codes.continuation.yield(await code { () async throws(AppServiceError) in try await request.respond(large) })
            }
        }
        try await SessionWorld.with(services: [service]) { world in
            let connection = try await world.open()
            let call = Task { await Life.send(connection) }
            await taken.wait()
            try await world.relay.hold(true)
            goOn.happen()
            while await world.targetSession.inventory()["responses"] != 1 { await Task.yield() }
            try await world.relay.breakOff()
            #expect(await call.value == .remoteSystemUnavailable)
            var answers = codes.stream.makeAsyncIterator()
            #expect(await answers.next() == .cancelled)
            #expect(await Inventory.settled(world.targetSession).isEmpty)
        }
    }

    // MARK: Hostile peers

    /// A peer with a valid key that sends arbitrary frames.
    struct HostilePeer {
        let channel: any Channel
        let session: PeerSession

        /// - Parameter frames: Receives the frames that arrive.
        static func connect(
            _ relay: TestTunnelRelay,
            to target: SessionSide,
            frames: AsyncStream<SessionFrame>.Continuation? = nil
        ) async throws -> HostilePeer {
            var configuration = try TestCertificate().clientConfiguration()
            configuration.applicationProtocols = ["device-relay/1"]
            let context = try NIOSSLContext(configuration: configuration)
            let tunnel = relay.tunnel()
            async let accepted = target.connector.acceptSession(over: tunnel.target) { _ in true }
            let channel = try await tunnel.opener.connect(timeout: .seconds(10)) { channel in
                try channel.pipeline.syncOperations.addHandler(NIOSSLClientHandler(context: context, serverHostname: nil))
                if let frames { try channel.pipeline.syncOperations.addHandler(FrameReader(frames)) }
                try channel.pipeline.syncOperations.addHandler(QuietHandler())
            }
            channel.writeAndFlush(ByteBuffer(bytes: SessionTrustTests.settings), promise: nil)
            return HostilePeer(channel: channel, session: try await accepted)
        }

        func send(_ frames: SessionFrame...) { send(frames) }

        /// In one write.
        func send(_ frames: [SessionFrame]) {
            var bytes = ByteBuffer()
            for frame in frames { SessionFrameEncoder.write(frame, to: &bytes) }
            channel.writeAndFlush(bytes, promise: nil)
        }
    }

    /// Passes on the frames that are read.
    final class FrameReader: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private var decoder = SessionFrameDecoder()
        private let frames: AsyncStream<SessionFrame>.Continuation

        init(_ frames: AsyncStream<SessionFrame>.Continuation) { self.frames = frames }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            decoder.append(Self.unwrapInboundIn(data))
            while let frame = try? decoder.next() { frames.yield(frame) }
        }

        func channelInactive(context: ChannelHandlerContext) {
            frames.finish()
            context.fireChannelInactive()
        }
    }

    /// Each ends one request, and the connection stays open.
    @Test func invalidMessageEndsItsRequestOnly() async throws {
        let relay = try await TestTunnelRelay()
        let target = try SessionSide(services: [.echo()])
        let frames = AsyncStream.makeStream(of: SessionFrame.self)
        let peer = try await HostilePeer.connect(relay, to: target, frames: frames.continuation)
        let one = SessionConnectionID(1)
        peer.send(SessionFrame(.open(SessionOpening(serviceName: "test", appID: "com.example.app")), connection: one))
        var iterator = frames.stream.makeAsyncIterator()
        while let frame = await iterator.next(), frame.payload != .opened { #expect(frame.connection == .session) }
        let messages: [[UInt8]] = [[0xA0, 0], [0xFF], [], [0xA0, 0xA0], [0xB8, 0], [0xA0]]
        for (index, message) in messages.enumerated() {
            let number = UInt32(truncatingIfNeeded: index + 1)
            peer.send(SessionFrame(.request(.inline(ByteBuffer(bytes: message)), timeLeft: nil), connection: one, number: number))
            guard let answer = await iterator.next() else { break }
            #expect(answer.connection == one && answer.number == number)
            switch answer.payload {
            case .error(let failure): #expect(failure.code == .invalidMessage && index < messages.count - 1)
            case .response(let answer): #expect(answer == .inline(ByteBuffer(bytes: [0xA0])) && index == messages.count - 1)
            default: Issue.record("\(answer)")
            }
        }
        #expect(!peer.session.hasEnded)
        try? await peer.channel.close().get()
        await relay.stop()
    }

    @Test func openWithoutAPackageIsRefused() async throws {
        let relay = try await TestTunnelRelay()
        let target = try SessionSide(services: [.echo()])
        let frames = AsyncStream.makeStream(of: SessionFrame.self)
        let peer = try await HostilePeer.connect(relay, to: target, frames: frames.continuation)
        peer.send(SessionFrame(.open(SessionOpening(serviceName: "test")), connection: SessionConnectionID(1)))
        for await frame in frames.stream where frame.connection != .session {
            guard case .refused(let rejection) = frame.payload else {
                Issue.record("\(frame)")
                break
            }
            #expect(rejection.code == .appNotInstalled)
            break
        }
        try? await peer.channel.close().get()
        await relay.stop()
    }

    static func randomFrame(using random: inout SeededGenerator) -> SessionFrame {
        let connection = SessionConnectionID(UInt32.random(in: 1...5, using: &random))
        let number = UInt32.random(in: 1...4, using: &random)
        let message = ByteBuffer(bytes: random.oneIn(2) ? [0xA0] : random.bytes(Int.random(in: 0...40, using: &random)))
        let kind: SessionFrame.MessageKind = random.oneIn(2) ? .request : .response
        switch Int.random(in: 0...12, using: &random) {
        case 0...3:
            return SessionFrame(
                .open(SessionOpening(serviceName: random.oneIn(3) ? "none" : "test", appID: "com.example.app")),
                connection: connection
            )
        case 4...5: return SessionFrame(.request(.inline(message), timeLeft: .milliseconds(5)), connection: connection, number: number)
        case 6: return SessionFrame(.request(.announced(40_000), timeLeft: nil), connection: connection, number: number)
        case 7: return SessionFrame(.data(message, of: kind, isLast: random.oneIn(2)), connection: connection, number: number)
        case 8: return SessionFrame(.cancel, connection: connection, number: number)
        case 9: return SessionFrame(.response(.inline(message)), connection: connection, number: number)
        case 10: return SessionFrame(.close(SessionClosure(.completed)), connection: connection)
        case 11: return SessionFrame(.grant(kind), connection: connection, number: number)
        default: return SessionFrame(.ping(7))
        }
    }

    @Test func randomFramesEndASessionAtMost() async throws {
        let relay = try await TestTunnelRelay()
        let target = try SessionSide(services: [.echo()])
        var random = SeededGenerator(seed: 2026)
        for _ in 0..<100 {
            let peer = try await HostilePeer.connect(relay, to: target)
            // The first ones make sense, so that the others meet something.
            peer.send(
                SessionFrame(.open(SessionOpening(serviceName: "test", appID: "com.example.app")), connection: SessionConnectionID(1))
            )
            while await peer.session.inventory()["connections"] == nil, !peer.session.hasEnded { await Task.yield() }
            for _ in 0..<Int.random(in: 1...30, using: &random) {
                if random.oneIn(20) {
                    peer.channel.writeAndFlush(ByteBuffer(bytes: random.bytes(30)), promise: nil)
                } else {
                    peer.send(Self.randomFrame(using: &random))
                }
            }
            try? await peer.channel.close().get()
            #expect(await peer.session.ended() != nil)
            #expect(await Inventory.settled(peer.session).isEmpty)
        }
        await target.hasFree(128 << 20)
        await relay.stop()
    }

    /// The actions for the first frames run after the last frames are read.
    @Test func framesOfOneReadMayCancelEachOther() async throws {
        let relay = try await TestTunnelRelay()
        let target = try SessionSide(services: [.echo()])
        func open(_ name: String, _ id: UInt32) -> SessionFrame {
            SessionFrame(.open(SessionOpening(serviceName: name, appID: "com.example.app")), connection: SessionConnectionID(id))
        }
        func on(_ id: UInt32, _ number: UInt32, _ payload: SessionFrame.Payload) -> SessionFrame {
            SessionFrame(payload, connection: SessionConnectionID(id), number: number)
        }
        let message = SessionFrame.Payload.request(.inline(ByteBuffer(bytes: [0xA0])), timeLeft: .seconds(5))
        let large = SessionFrame.Payload.request(.announced(40_000), timeLeft: nil)
        let close = SessionFrame.Payload.close(SessionClosure(.completed))
        let readings: [[SessionFrame]] = [
            [open("test", 1), on(1, 0, close)],
            [open("none", 1), on(1, 0, close), open("test", 3), on(3, 0, close)],
            [open("test", 1), on(1, 1, message), on(1, 1, .cancel), on(1, 0, close)],
            [open("test", 1), on(1, 1, message), on(1, 2, message), on(1, 1, .cancel)],
            [open("test", 1), on(1, 1, large), on(1, 1, .cancel), on(1, 2, large), on(1, 0, close)],
            [open("test", 1), on(1, 1, large), SessionFrame(.goaway(SessionGoAway(lastConnection: .session)))],
            [open("test", 1), on(1, 1, message), SessionFrame(.ping(1)), on(7, 0, .opened)],
        ]
        for frames in readings {
            let peer = try await HostilePeer.connect(relay, to: target)
            // Many more of them in one read than are taken at once.
            peer.send(frames + (1...200).map { SessionFrame(.ping($0)) })
            peer.send(SessionFrame(.ping(0)))
            try? await peer.channel.close().get()
            #expect(await peer.session.ended() != nil)
            #expect(await Inventory.settled(peer.session).isEmpty)
        }
        var random = SeededGenerator(seed: 2027)
        for _ in 0..<100 {
            let peer = try await HostilePeer.connect(relay, to: target)
            peer.send([open("test", 1)] + (0..<Int.random(in: 1...200, using: &random)).map { _ in Self.randomFrame(using: &random) })
            try? await peer.channel.close().get()
            #expect(await peer.session.ended() != nil)
            #expect(await Inventory.settled(peer.session).isEmpty)
        }
        await target.hasFree(128 << 20)
        await relay.stop()
    }

    @Test func protocolViolationEndsTheSession() async throws {
        let relay = try await TestTunnelRelay()
        let target = try SessionSide(services: [.echo()])
        let peer = try await HostilePeer.connect(relay, to: target)
        peer.send(SessionFrame(.opened, connection: SessionConnectionID(7)))
        #expect(await peer.session.ended() == .failed(.invalidConnection))
        try await peer.channel.closeFuture.get()
        let second = try await HostilePeer.connect(relay, to: target)
        var pings = ByteBuffer()
        for value in 0..<40_000 { SessionFrameEncoder.write(SessionFrame(.ping(UInt64(value))), to: &pings) }
        // It asks, and does not read.
        try await relay.hold(true)
        try await second.channel.setOption(.autoRead, value: false).get()
        for _ in 0..<8 { second.channel.writeAndFlush(pings, promise: nil) }
        try await relay.hold(false)
        #expect(await second.session.ended() == .failed(.tooManyReplies))
        try? await second.channel.close().get()
        await relay.stop()
    }
}
