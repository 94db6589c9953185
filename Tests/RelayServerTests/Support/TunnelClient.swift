// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import NIOCore
import NIOPosix
import RelayProtocol
import RelayTesting
import Synchronization

@testable import RelayServer

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// One side of a tunnel, over either transport. Counts and digests what arrives, rather than keep it.
final class TunnelClient: Sendable {
    enum Transport: CaseIterable, Sendable {
        case tcp, webSocket
    }

    struct State {
        /// The relay's first byte, or the status of its HTTP answer.
        var status: Int?
        var count = 0
        var hash = SHA256()
        /// The first bytes, for tests that send few.
        var head: [UInt8] = []
        /// The other side has said its last.
        var isEnded = false
        var isClosed = false
        var isBroken = false
        var waiters: [(isMet: @Sendable (borrowing State) -> Bool, continuation: CheckedContinuation<Void, Never>)] = []

        var digest: [UInt8] { Array(hash.finalize()) }
        var text: String { String(decoding: head, as: UTF8.self) }
    }

    static let paired: [Transport: Int] = [.tcp: 0, .webSocket: 101]

    let transport: Transport
    private let channel: any Channel
    private let state: Shared

    final class Shared: Sendable {
        private let state = Mutex(State())

        func read<Value>(_ body: (borrowing State) -> sending Value) -> Value { state.withLock { body($0) } }

        func change(_ body: (inout sending State) -> Void) {
            let met = state.withLock { state in
                body(&state)
                var met: [CheckedContinuation<Void, Never>] = []
                var others = state.waiters
                state.waiters = []
                others.removeAll { waiter in
                    guard waiter.isMet(state) else { return false }
                    met.append(waiter.continuation)
                    return true
                }
                state.waiters = others
                return met
            }
            for continuation in met { continuation.resume() }
        }

        func wait(until isMet: @escaping @Sendable (borrowing State) -> Bool) async {
            await withCheckedContinuation { continuation in
                change { $0.waiters.append((isMet, continuation)) }
            }
        }
    }

    /// Connects, and shows the token.
    init(_ transport: Transport, _ entrance: TunnelEntrance, at relay: TestRelay) async throws {
        let state = Shared()
        self.state = state
        self.transport = transport
        let port = transport == .tcp ? try entrance.tcpPort : relay.port
        channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .channelOption(.maxMessagesPerRead, value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Handler(transport: transport, state: state))
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
        switch transport {
        case .tcp:
            try await channel.writeAndFlush(ByteBuffer(bytes: TunnelPreface(tunnel: entrance.tunnel, token: entrance.token).bytes))
        case .webSocket:
            try await channel.writeAndFlush(ByteBuffer(string: Self.request(entrance, at: relay)))
        }
    }

    static func request(_ entrance: TunnelEntrance, at relay: TestRelay, fields: [String: String?] = [:]) -> String {
        let own = [
            "Sec-WebSocket-Protocol": "device-relay.tunnel.v1",
            "Authorization": "Tunnel \(Base64.url.encode(entrance.token.exposed.bytes))",
        ]
        let all = (own as [String: String?]).merging(fields) { $1 }
        return TestWebSocket.request(host: relay.host, path: "/v1/tunnels/\(entrance.tunnel)", fields: all)
    }

    deinit { channel.close(promise: nil) }

    // MARK: What arrives

    func status() async -> Int? {
        await state.wait { $0.status != nil || $0.isClosed }
        return state.read { $0.status }
    }

    /// Waits for so many bytes; less if no more come.
    func received(_ count: Int) async -> (count: Int, digest: [UInt8], text: String) {
        await state.wait { $0.count >= count || $0.isEnded || $0.isClosed }
        return state.read { ($0.count, $0.digest, $0.text) }
    }

    var count: Int { state.read { $0.count } }
    var isEnded: Bool { state.read { $0.isEnded } }
    /// It was no end but a reset.
    var isBroken: Bool { state.read { $0.isBroken } }
    func ended() async { await state.wait { $0.isEnded || $0.isClosed } }

    func setReading(_ isReading: Bool) async throws { try await channel.setOption(.autoRead, value: isReading).get() }

    // MARK: What is sent

    func send(_ text: String) async throws { try await send(ByteBuffer(string: text)) }

    func send(_ bytes: ByteBuffer) async throws {
        guard transport == .webSocket else { return try await channel.writeAndFlush(bytes) }
        var bytes = bytes
        var frame = ByteBuffer()
        frame.writeClientHead(opcode: 2, length: bytes.readableBytes)
        frame.writeUnmasked(&bytes, count: bytes.readableBytes, mask: 0x0403_0201, offset: 0)
        try await channel.writeAndFlush(frame)
    }

    /// Sends random bytes, and returns their digest.
    func pump(_ count: Int, seed: UInt64) async throws -> [UInt8] {
        var random = SeededGenerator(seed: seed)
        let block = ByteBuffer(bytes: (0..<8_192).flatMap { _ in withUnsafeBytes(of: random.next()) { Array($0) } })
        var (hash, sent) = (SHA256(), 0)
        while sent < count {
            // Every chunk is another, and not all of them end where a read does.
            var chunk = block
            chunk.setInteger(random.next(), at: 0)
            let length = min(count - sent, 65_536 - Int(random.next() % 999))
            guard let piece = chunk.readSlice(length: length) else { break }
            piece.withUnsafeReadableBytes { hash.update(bufferPointer: $0) }
            try await send(piece)
            sent += length
        }
        return Array(hash.finalize())
    }

    /// Says that no more will come.
    func finish() async throws {
        guard transport == .webSocket else { return try await channel.close(mode: .output) }
        var frame = ByteBuffer()
        var code = ByteBuffer(integer: UInt16(1000))
        frame.writeClientHead(opcode: 8, length: 2)
        frame.writeUnmasked(&code, count: 2, mask: 0x0403_0201, offset: 0)
        try await channel.writeAndFlush(frame)
    }

    func close() async { try? await channel.close() }

    /// Breaks off as a process does that is killed with bytes unread.
    func kill() async throws {
        try await (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0)).get()
        try await channel.close()
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        let transport: Transport
        let state: Shared
        var unread = ByteBuffer()
        var isGreeted = false
        var payloadLeft = 0

        init(transport: Transport, state: Shared) {
            self.transport = transport
            self.state = state
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            var bytes = Self.unwrapInboundIn(data)
            unread.writeBuffer(&bytes)
            if !isGreeted { greet() }
            guard isGreeted else { return }
            if transport == .tcp { take(unread.readableBytes) } else { readFrames() }
            unread.discardReadBytes()
        }

        private func greet() {
            switch transport {
            case .tcp:
                guard let status = unread.readInteger(as: UInt8.self) else { return }
                isGreeted = true
                state.change { $0.status = Int(status) }
            case .webSocket:
                let text = String(buffer: unread)
                guard let end = text.range(of: "\r\n\r\n") else { return }
                unread.moveReaderIndex(forwardBy: text[..<end.upperBound].utf8.count)
                isGreeted = true
                let status = Int(text.dropFirst(9).prefix(3))
                state.change { $0.status = status }
            }
        }

        private func readFrames() {
            while unread.readableBytes > 0 {
                if payloadLeft > 0 {
                    let count = min(payloadLeft, unread.readableBytes)
                    take(count)
                    payloadLeft -= count
                    continue
                }
                var head = unread
                guard let opcode: UInt8 = head.readInteger(), let short: UInt8 = head.readInteger() else { return }
                var length = Int(short)
                if short == 126 {
                    guard let long: UInt16 = head.readInteger() else { return }
                    length = Int(long)
                } else if short == 127 {
                    guard let long: UInt64 = head.readInteger() else { return }
                    length = Int(long)
                }
                if opcode == 0x82 {
                    unread = head
                    payloadLeft = length
                } else {
                    guard let control = head.readSlice(length: length) else { return }
                    unread = head
                    if opcode == 0x88 { state.change { $0.isEnded = true } } else { append(control) }
                }
            }
        }

        private func take(_ count: Int) {
            if let bytes = unread.readSlice(length: count) { append(bytes) }
        }

        private func append(_ bytes: ByteBuffer) {
            state.change { state in
                state.count += bytes.readableBytes
                bytes.withUnsafeReadableBytes { state.hash.update(bufferPointer: $0) }
                if state.head.count < 4_096 { state.head += bytes.readableBytesView.prefix(4_096) }
            }
        }

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            if case ChannelEvent.inputClosed = event { state.change { $0.isEnded = true } }
        }

        func channelInactive(context: ChannelHandlerContext) { state.change { $0.isClosed = true } }
        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            state.change { $0.isBroken = true }
            context.close(promise: nil)
        }
    }
}

extension TunnelEntrance {
    var tcpPort: Int {
        get throws {
            guard let url = urls.first, url.hasPrefix("tcp://:"), let port = Int(url.dropFirst(7)) else {
                throw TestError("no port: \(urls)")
            }
            return port
        }
    }
}

extension ByteBuffer {
    fileprivate mutating func writeClientHead(opcode: UInt8, length: Int) {
        writeInteger(0x80 | opcode)
        switch length {
        case ...125: writeInteger(0x80 | UInt8(length))
        case ...0xFFFF:
            writeInteger(UInt8(0x80 | 126))
            writeInteger(UInt16(length))
        default:
            writeInteger(UInt8(0x80 | 127))
            writeInteger(UInt64(length))
        }
        writeInteger(UInt32(0x0102_0304))
    }
}
