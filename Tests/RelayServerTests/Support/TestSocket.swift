// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix
import NIOSSL
import RelayProtocol
import Synchronization

/// A client of bytes: no HTTP or WebSocket library stands between a test and the wire.
final class TestSocket: Sendable {
    private let channel: any Channel
    private let incoming: Incoming

    /// - Parameter pinned: connects by TLS, and takes only this relay's key.
    init(port: Int, host: String = "127.0.0.1", pinned relay: RelayID? = nil, isReading: Bool = true) async throws {
        let incoming = Incoming()
        self.incoming = incoming
        self.channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.autoRead, value: isReading)
            .channelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: isReading ? 65_536 : 256))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let relay { try channel.pipeline.syncOperations.addHandler(Self.pinningHandler(relay)) }
                    try channel.pipeline.syncOperations.addHandler(CollectingHandler(incoming: incoming))
                }
            }
            .connect(host: host, port: port).get()
    }

    private static func pinningHandler(_ relay: RelayID) throws -> NIOSSLClientHandler {
        var settings = TLSConfiguration.makeClientConfiguration()
        settings.certificateVerification = .noHostnameVerification
        return try NIOSSLClientHandler(
            context: NIOSSLContext(configuration: settings),
            serverHostname: nil,
            customVerificationCallback: { certificates, promise in
                let spki = try? certificates.first?.extractPublicKey().toSPKIBytes()
                let id = spki.map { RelayID(digest: Digest256(hashing: $0)) }
                promise.succeed(id == relay ? .certificateVerified : .failed)
            }
        )
    }

    var port: Int { channel.localAddress?.port ?? 0 }

    func send(_ text: String) async throws { try await channel.writeAndFlush(ByteBuffer(string: text)) }
    func send(_ bytes: [UInt8]) async throws { try await channel.writeAndFlush(ByteBuffer(bytes: bytes)) }
    func close() async { try? await channel.close() }
    func stopReading() async throws { try await channel.setOption(.autoRead, value: false).get() }
    func startReading() async throws { try await channel.setOption(.autoRead, value: true).get() }

    /// The bytes so far, as soon as `isEnough` says so; all of them when the relay closes.
    func bytes(until isEnough: @escaping @Sendable ([UInt8]) -> Bool) async -> [UInt8] { await incoming.bytes(until: isEnough) }
    /// Takes bytes off the front.
    func drop(_ count: Int) { incoming.drop(count) }
    var isClosed: Bool { incoming.isClosed }

    /// What the relay sends until it closes.
    func textUntilClosed() async -> String { String(decoding: await bytes { _ in false }, as: UTF8.self) }

    /// An HTTP answer's head and body; the body by its announced length.
    func answer() async -> String {
        let bytes = await bytes { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            guard let end = text.range(of: "\r\n\r\n") else { return false }
            let head = text[..<end.lowerBound].lowercased()
            if head.hasPrefix("http/1.1 101") { return true }
            guard let field = head.split(separator: "\r\n").first(where: { $0.hasPrefix("content-length:") }),
                let length = Int(field.dropFirst(15).filter { $0 != " " })
            else { return false }
            return text[end.upperBound...].utf8.count >= length
        }
        let text = String(decoding: bytes, as: UTF8.self)
        if text.hasPrefix("HTTP/1.1 101"), let end = text.range(of: "\r\n\r\n") {
            let head = text[..<end.upperBound]
            drop(head.utf8.count)
            return String(head)
        }
        drop(bytes.count)
        return text
    }
}

/// The bytes that have arrived, and the tasks that wait for them.
final class Incoming: Sendable {
    private struct State {
        var bytes: [UInt8] = []
        var isClosed = false
        var waiter: (isEnough: @Sendable ([UInt8]) -> Bool, continuation: CheckedContinuation<[UInt8], Never>)?
    }

    private let state = Mutex(State())

    var isClosed: Bool { state.withLock { $0.isClosed } }

    func append(_ new: some Sequence<UInt8>) { change { $0.bytes.append(contentsOf: new) } }
    func close() { change { $0.isClosed = true } }
    func drop(_ count: Int) { state.withLock { $0.bytes.removeFirst(min(count, $0.bytes.count)) } }

    func bytes(until isEnough: @escaping @Sendable ([UInt8]) -> Bool) async -> [UInt8] {
        await withCheckedContinuation { continuation in
            change { $0.waiter = (isEnough, continuation) }
        }
    }

    private func change(_ change: (inout sending State) -> Void) {
        let resumed: (CheckedContinuation<[UInt8], Never>, [UInt8])? = state.withLock { state in
            change(&state)
            guard let waiter = state.waiter, state.isClosed || waiter.isEnough(state.bytes) else { return nil }
            state.waiter = nil
            return (waiter.continuation, state.bytes)
        }
        resumed?.0.resume(returning: resumed?.1 ?? [])
    }
}

private final class CollectingHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    let incoming: Incoming
    init(incoming: Incoming) { self.incoming = incoming }
    func channelRead(context: ChannelHandlerContext, data: NIOAny) { incoming.append(Self.unwrapInboundIn(data).readableBytesView) }
    func channelInactive(context: ChannelHandlerContext) { incoming.close() }
    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    func handlerRemoved(context: ChannelHandlerContext) { incoming.close() }
}

extension String {
    func range(of other: String) -> Range<Index>? {
        var index = startIndex
        while index < endIndex {
            if self[index...].hasPrefix(other) { return index..<self.index(index, offsetBy: other.count) }
            index = self.index(after: index)
        }
        return nil
    }
}
