// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import DeviceRelay
import NIOCore
import NIOSSL
import RelayProtocol
import RelayTesting
import Synchronization
import Testing

/// Peers with a proper key that send what is almost right: frames of a good conversation, changed by chance. Each seed is one session over
/// real TLS. None of it traps, holds more memory than the budget, or affects other sessions, and each waiting task gets an answer.
@Suite(.timeLimit(.minutes(10))) struct SessionFuzzTests {
    static let seeds = 150

    static let limits: Limits = {
        var limits = Limits()
        limits[.messageBytes] = 128 << 10
        limits[.connectionsPerSession] = 4
        limits[.assemblyBytesPerSession] = 256 << 10
        limits[.assemblyBytesPerEndpoint] = 512 << 10
        return limits
    }()

    /// Four windows, and the assembly budgets.
    static let maximumBytes = 4 * (256 << 10) + 2 * (256 << 10)

    // MARK: Conversations

    static func frame(_ payload: SessionFrame.Payload, _ connection: UInt32 = 1, _ number: UInt32 = 0) -> SessionFrame {
        SessionFrame(payload, connection: SessionConnectionID(connection), number: number)
    }

    static func encoded(_ frame: SessionFrame) -> [UInt8] {
        var bytes = ByteBuffer()
        SessionFrameEncoder.write(frame, to: &bytes)
        return Array(bytes.readableBytesView)
    }

    static let opening = SessionOpening(serviceName: "test", appID: "com.example.app", timeLeft: .seconds(30))
    static let large = ByteBuffer(repeating: 0x40, count: 16 << 10)

    /// The frames of an opener that calls a service in every possible way.
    static let calls: [[UInt8]] = [
        frame(.settings(SessionSettings()), 0), frame(.open(opening)),
        frame(.request(.inline(ByteBuffer(bytes: [0xA0])), timeLeft: nil), 1, 1),
        frame(.request(.announced(40_000), timeLeft: .seconds(5)), 1, 2), frame(.open(opening), 3),
        frame(.request(.inline(ByteBuffer(bytes: [0xA1, 0x61, 0x61, 0x01])), timeLeft: .milliseconds(1)), 3, 1),
        frame(.data(large, of: .request, isLast: false), 1, 2), frame(.data(large, of: .request, isLast: false), 1, 2),
        frame(.cancel, 3, 1),
        frame(.data(ByteBuffer(repeating: 0, count: 40_000 - (32 << 10)), of: .request, isLast: true), 1, 2), frame(.window(1_000), 1),
        frame(.ping(1), 0), frame(.grant(.response), 1, 2), frame(.close(SessionClosure(.completed)), 3), frame(.open(opening), 5),
    ].map(encoded)

    /// The frames of a target that answers two requests on one connection.
    static let answers: [[UInt8]] = [
        frame(.settings(SessionSettings()), 0), frame(.opened), frame(.response(.inline(ByteBuffer(bytes: [0xA0]))), 1, 1),
        frame(.ping(3), 0),
        frame(.response(.announced(40_000)), 1, 2), frame(.data(large, of: .response, isLast: false), 1, 2),
        frame(.data(large, of: .response, isLast: false), 1, 2), frame(.request(.inline(ByteBuffer(bytes: [0xA0])), timeLeft: nil), 1, 1),
        frame(.data(ByteBuffer(repeating: 0, count: 40_000 - (32 << 10)), of: .response, isLast: true), 1, 2),
        frame(.error(SessionFailure(.failure, "no")), 1, 3), frame(.window(100), 1), frame(.close(SessionClosure(.completed))),
    ].map(encoded)

    /// A conversation with a few frames changed, doubled, left out or out of order.
    static func mutated(_ frames: [[UInt8]], using random: inout SeededGenerator) -> [UInt8] {
        var frames = frames
        for _ in 0..<Int.random(in: 0...4, using: &random) {
            // The first ones make sense mostly, so that the others meet something.
            let index = Int.random(in: random.oneIn(8) ? 0..<2 : 2..<frames.count, using: &random)
            switch Int.random(in: 0...6, using: &random) {
            case 0: frames[index] = []
            case 1: frames[index] += frames[index]
            case 2: frames.swapAt(index, Int.random(in: 0..<frames.count, using: &random))
            case 3: frames[index].removeLast(Int.random(in: 0...frames[index].count, using: &random))
            case 4: frames[index] += random.bytes(Int.random(in: 1...30, using: &random))
            default:
                // Mostly in the header, whose fields mean most.
                guard !frames[index].isEmpty else { continue }
                let end = random.oneIn(3) ? frames[index].count : min(frames[index].count, 18)
                frames[index][Int.random(in: 0..<end, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
        }
        return frames.flatMap(\.self)
    }

    // MARK: Peers

    /// Records the bytes that it receives.
    private final class FrameRecorder: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer
        let received = Mutex<[UInt8]>([])
        /// Of types of frames.
        private let signals = [FrameRecorder.open: Signal(), FrameRecorder.request: Signal()]
        static let open = SessionFuzzTests.calls[1][4]
        static let request = SessionFuzzTests.calls[2][4]

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let bytes = unwrapInboundIn(data)
            let all = received.withLock { received in
                received += bytes.readableBytesView
                return received
            }
            for (type, signal) in signals where Self.types(in: all).contains(type) { signal.happen() }
        }
        func channelInactive(context: ChannelHandlerContext) { stop() }

        /// Waits for a frame of a type, for the end of the stream, or for a second: a mutated frame may have no answer.
        func waitForFrame(_ type: UInt8) async {
            guard let signal = signals[type] else { return }
            let timeout = Task {
                try await Task.sleep(for: .seconds(1))
                signal.happen()
            }
            await signal.wait()
            timeout.cancel()
        }

        func stop() { for signal in signals.values { signal.happen() } }

        private static func types(in bytes: [UInt8]) -> Set<UInt8> {
            var types: Set<UInt8> = []
            var rest = bytes[...]
            while rest.count >= 14 {
                let length = rest.prefix(4).reduce(0) { $0 << 8 | Int($1) }
                types.insert(rest[rest.startIndex + 4])
                rest = rest.dropFirst(14 + length)
            }
            return types
        }
        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }

    private static func configuration(_ certificate: TestCertificate, isServer: Bool) throws -> TLSConfiguration {
        var configuration = try certificate.clientConfiguration()
        if isServer {
            configuration = .makeServerConfiguration(
                certificateChain: configuration.certificateChain,
                privateKey: try #require(configuration.privateKey)
            )
        }
        configuration.applicationProtocols = ["device-relay/1"]
        return configuration
    }

    @Test func targetSurvivesMutatedOpeners() async throws {
        let relay = try await TestTunnelRelay()
        let target = try SessionSide(limits: Self.limits, services: [.echo()])
        let context = try NIOSSLContext(configuration: try Self.configuration(try TestCertificate(), isServer: false))
        // Another opener. Its requests go on, and its data stays private.
        let honest = try SessionSide()
        let tunnel = relay.tunnel()
        async let accepted = target.connector.acceptSession(over: tunnel.target) { _ in true }
        let session = try await honest.connector.open(to: target.id, over: tunnel.opener)
        let connection = try await session.open(SessionWorld.info, timeout: .seconds(60))
        let secret = "what the others must not know"
        for seed in 0..<Self.seeds {
            var random = SeededGenerator(seed: UInt64(seed))
            let recorder = FrameRecorder()
            let tunnel = relay.tunnel()
            async let started = try? target.connector.acceptSession(over: tunnel.target) { _ in true }
            let channel = try await tunnel.opener.connect(timeout: .seconds(60)) { channel in
                try channel.pipeline.syncOperations.addHandlers([NIOSSLClientHandler(context: context, serverHostname: nil), recorder])
            }
            channel.writeAndFlush(ByteBuffer(bytes: Self.mutated(Self.calls, using: &random)), promise: nil)
            #expect(try await connection.send(["Secret": .string(secret)], timeout: .seconds(60)) == ["Secret": .string(secret)])
            let peer = channel.closeFuture
            if let session = random.oneIn(2) ? nil : await started {
                let held = await session.inventory()["bytes", default: 0]
                #expect(held <= Self.maximumBytes, "seed \(seed)")
            }
            channel.close(promise: nil)
            try await peer.get()
            if let session = await started {
                #expect(await session.ended() != nil, "seed \(seed)")
                #expect(await Inventory.settled(session).isEmpty, "seed \(seed)")
            }
            let received = String(decoding: recorder.received.withLock { $0 }, as: UTF8.self)
            #expect(!received.contains(secret), "seed \(seed)")
        }
        await session.shutDown()
        _ = try await accepted.ended()
        await target.hasFree(512 << 10)
        await relay.stop()
    }

    @Test func openerSurvivesMutatedTargets() async throws {
        let relay = try await TestTunnelRelay()
        let opener = try SessionSide(limits: Self.limits)
        let certificate = try TestCertificate()
        let id = EndpointID(SigningPublicKey(certificate.key.publicKey))
        let context = try NIOSSLContext(configuration: try Self.configuration(certificate, isServer: true))
        let answered = Shared(0)
        for seed in 0..<Self.seeds {
            var random = SeededGenerator(seed: UInt64(seed))
            let recorder = FrameRecorder()
            let tunnel = relay.tunnel()
            // Some targets send only half of their settings.
            async let opened = try? opener.connector.open(to: id, over: tunnel.opener, timeout: .seconds(1))
            let target: (any Channel)? = try? await tunnel.target.connect(timeout: .seconds(60)) { channel in
                try channel.pipeline.syncOperations.addHandlers([NIOSSLServerHandler(context: context), recorder])
            }
            // On a busy machine the opener can give up before the target has come.
            guard let channel = target else {
                #expect(await opened == nil)
                continue
            }
            // It sends everything at once, or each part when it is due: the settings, the answer to an open, the answer to a request.
            let bytes = ArraySlice(Self.mutated(Self.answers, using: &random))
            let cuts = random.oneIn(2) ? [] : [Self.answers[0].count, Self.answers[0].count + Self.answers[1].count]
            var sentEnd = bytes.startIndex
            func send(to end: Int) {
                let end = min(end, bytes.endIndex)
                channel.writeAndFlush(ByteBuffer(bytes: bytes[sentEnd..<end]), promise: nil)
                sentEnd = end
            }
            send(to: cuts.first ?? bytes.endIndex)
            let session = await opened
            let calls = Task {
                await withTaskGroup { group in
                    for _ in 0..<3 {
                        group.addTask {
                            do throws(AppServiceError) {
                                guard let session else { return }
                                let connection = try await session.open(SessionWorld.info, timeout: .seconds(300))
                                _ = try await connection.send([:], timeout: .seconds(300))
                                answered.withLock { $0 += 1 }
                            } catch {
                                // The peer determines the error; the call must only end with one.
                                #expect(error.code != .timedOut && error.code != .cancelled, "seed \(seed): \(error)")
                            }
                        }
                    }
                }
                // They may have been refused on this side already.
                recorder.stop()
            }
            for cut in cuts.dropFirst() + [bytes.endIndex] {
                await recorder.waitForFrame(FrameRecorder.open)
                send(to: cut)
                if cut < bytes.endIndex { await recorder.waitForFrame(FrameRecorder.request) }
            }
            if let session {
                let held = await session.inventory()["bytes", default: 0]
                #expect(held <= Self.maximumBytes, "seed \(seed)")
            }
            channel.close(promise: nil)
            await calls.value
            guard let session else { continue }
            #expect(await session.ended() != nil, "seed \(seed)")
            #expect(await Inventory.settled(session).isEmpty, "seed \(seed)")
        }
        // Some of them were right.
        #expect(answered.value > 0)
        await opener.hasFree(512 << 10)
        await relay.stop()
    }
}
