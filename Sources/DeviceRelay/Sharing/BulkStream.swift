// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
package import RelayProtocol
import Synchronization

/// A byte stream to another endpoint, end to end encrypted, that carries the content of files beside the session. It has its own connection,
/// so a large file delays no message.
package final class BulkStream: Sendable {
    /// What is read from the connection at once, in bytes.
    private static let readBytes = 128 << 10
    /// An element is one read of the connection, so this bounds the memory to 2 MiB. With less, the connection stands still while a thread wakes
    /// up.
    private static let backPressure = NIOAsyncSequenceProducerBackPressureStrategies.HighLowWatermark(lowWatermark: 8, highWatermark: 16)
    /// The elements that wait, and those that `takeFrames` has.
    private static let buffers = 24
    /// What waits to be sent, in bytes: two reads of a file.
    private static let waiting = ChannelOptions.Types.WriteBufferWaterMark(low: 128 << 10, high: 384 << 10)

    /// The peer's endpoint id, proved by its key.
    package let peer: EndpointID
    private let channel: NIOAsyncChannel<ByteBuffer, ByteBuffer>

    /// Takes over a channel whose handshake is complete. Call it on the channel's event loop.
    init(_ channel: any Channel, with peer: EndpointID) throws {
        self.peer = peer
        if let options = channel.syncOptions {
            let allocator = AdaptiveRecvByteBufferAllocator(minimum: 1 << 10, initial: 64 << 10, maximum: Self.readBytes)
            try options.setOption(.recvAllocator, value: allocator)
            try options.setOption(.maxMessagesPerRead, value: 1)
            try options.setOption(.writeBufferWaterMark, value: Self.waiting)
        }
        try channel.pipeline.syncOperations.addHandler(BufferRingHandler(BufferRing(Self.buffers)))
        self.channel = try NIOAsyncChannel(
            wrappingChannelSynchronously: channel,
            configuration: .init(backPressureStrategy: Self.backPressure)
        )
    }

    /// A stream that nobody has used is closed. The async channel must live until then: it does not permit to be dropped open.
    deinit {
        let channel = channel
        channel.channel.close(promise: nil)
        channel.channel.closeFuture.whenComplete { _ in withExtendedLifetime(channel) {} }
    }

    /// Closes the stream, whose use then ends.
    func close() { channel.channel.close(promise: nil) }

    /// Uses the stream, once, and closes it. An error of the closing is none of its use: the peer may have closed it before.
    package func use<Result: Sendable>(
        _ body: (NIOAsyncChannelInboundStream<ByteBuffer>, NIOAsyncChannelOutboundWriter<ByteBuffer>) async throws -> Result
    ) async throws -> Result {
        var result: Result?
        do {
            return try await channel.executeThenClose { inbound, outbound in
                let value = try await body(inbound, outbound)
                result = value
                return value
            }
        } catch {
            guard let result else { throw error }
            return result
        }
    }
}

/// What a peer has opened over a byte stream: the protocol that its TLS handshake names.
package enum PeerLink: Sendable {
    case session(PeerSession)
    /// A session of the peer that has moved to the stream.
    case moved(PeerSession)
    /// The stream was given to the transfer that expected it.
    case bulk
}

/// Names a bulk stream in its first bytes. The accepting side makes it, and tells it the peer in their session.
package struct BulkToken: Hashable, Sendable {
    package let secret: Secret<[UInt8]>

    package init() {
        var random = SystemRandomNumberGenerator()
        secret = Secret(randomBytes(BulkWire.tokenBytes, using: &random))
    }

    package init?(_ bytes: [UInt8]) {
        guard bytes.count == BulkWire.tokenBytes else { return nil }
        secret = Secret(bytes)
    }

    fileprivate var digest: Digest256 { Digest256(hashing: secret.exposed) }
}

/// The bulk streams that this endpoint expects.
package final class BulkStreams: Sendable {
    /// A stream that a peer is to open.
    package final class Expected: Sendable {
        package let token = BulkToken()
        fileprivate let peer: EndpointID
        private let arrived = OneShot<BulkStream?>()

        fileprivate init(from peer: EndpointID) { self.peer = peer }

        /// Waits for the stream. `nil` if the task is cancelled before.
        package func stream() async -> BulkStream? { await arrived.wait() ?? nil }

        /// - Returns: Whether the stream is the first one.
        fileprivate func take(_ stream: BulkStream) -> Bool { arrived.settle(stream) }

        fileprivate func end() { arrived.settle(nil) }
    }

    private let expected = Mutex<[Digest256: Expected]>([:])

    package init() {}

    /// Expects a stream of a peer while a closure runs.
    package func expecting<Result, Failure: Error>(
        from peer: EndpointID,
        _ body: (Expected) async throws(Failure) -> Result
    ) async throws(Failure) -> Result {
        let stream = Expected(from: peer)
        expected.withLock { $0[stream.token.digest] = stream }
        defer {
            expected.withLock { $0[stream.token.digest] = nil }
            stream.end()
        }
        return try await body(stream)
    }

    /// The stream that a peer may open with this token, once.
    func claim(_ token: BulkToken, by peer: EndpointID) -> Claim? {
        // Looked up by the digest, so that the time of the search says nothing about a token.
        let found = expected.withLock { expected in
            expected[token.digest]?.peer == peer ? expected.removeValue(forKey: token.digest) : nil
        }
        return found.map(Claim.init)
    }

    struct Claim {
        fileprivate let expected: Expected

        func take(_ stream: BulkStream) {
            // The transfer has ended.
            if !expected.take(stream) { stream.close() }
        }
    }
}

/// Whether a byte stream may become a bulk stream.
enum BulkStart: Sendable {
    case never
    /// The client opens one with a token.
    case opening(BulkToken, @Sendable (BulkStream) -> Void)
    /// The server accepts those it expects.
    case accepting(BulkStreams)

    /// The protocols for the TLS handshake.
    var applicationProtocols: [String] {
        switch self {
        case .never: [SessionWire.applicationProtocol]
        case .opening: [BulkWire.applicationProtocol]
        case .accepting: [SessionWire.applicationProtocol, BulkWire.applicationProtocol]
        }
    }
}

// The start of a bulk stream, in place of a session.
extension SessionStream {
    /// Begins a bulk stream after the handshake has named its protocol.
    func startBulk(with peer: EndpointID, _ context: ChannelHandlerContext) {
        switch environment.bulk {
        case .never: failStart(.notAuthentic)
        case .opening(let token, let opened):
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: token.secret.exposed)), promise: nil)
            becomeBulk(with: peer, context, rest: ByteBuffer()) { opened($0) }
        case .accepting: start = .token(ByteBuffer())
        }
    }

    /// Takes the first bytes of a bulk stream, which name it.
    func receiveToken(_ bytes: ByteBuffer, after before: ByteBuffer, _ context: ChannelHandlerContext) {
        var all = before
        all.writeImmutableBuffer(bytes)
        guard let token = all.readBytes(length: BulkWire.tokenBytes).flatMap({ BulkToken($0) }) else {
            start = .token(all)
            return
        }
        guard case .accepting(let streams) = environment.bulk, let peer = environment.peer(), let claim = streams.claim(token, by: peer)
        else { return failStart(.notAuthentic) }
        becomeBulk(with: peer, context, rest: all) { claim.take($0) }
    }

    /// - Parameter rest: The first bytes of the content.
    private func becomeBulk(with peer: EndpointID, _ context: ChannelHandlerContext, rest: ByteBuffer, _ take: (BulkStream) -> Void) {
        do {
            take(try BulkStream(context.channel, with: peer))
        } catch {
            return failStart(.broken)
        }
        finishStart(.success(.bulk))
        start = .replaced
        // A removed handler passes nothing on.
        if rest.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(rest)) }
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }
}
