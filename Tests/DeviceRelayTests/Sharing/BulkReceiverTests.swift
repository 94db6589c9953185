// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import RelayTesting
import Synchronization
import Testing

@testable import DeviceRelay

/// Content that is asked for beside a bulk stream, over a relay's tunnels.
@Suite(.timeLimit(.minutes(5))) struct BulkReceiverTests {
    private let relay: TestTunnelRelay
    private let (near, far): (SessionSide, SessionSide)

    init() async throws {
        relay = try await TestTunnelRelay()
        (near, far) = (try SessionSide(), try SessionSide())
    }

    /// What a request has brought.
    private final class Frames: BulkTaking {
        private let frames = Mutex<[BulkFrame]>([])
        var all: [BulkFrame] { frames.withLock { $0 } }
        func take(_ frames: [BulkFrame]) { self.frames.withLock { $0 += frames } }
    }

    private typealias Writer = NIOAsyncChannelOutboundWriter<ByteBuffer>

    /// Opens a stream to a peer that writes what a test wants.
    private func receiving(_ body: @escaping @Sendable (BulkReceiver, Writer, BulkStream) async throws -> Void) async throws {
        let tunnel = relay.tunnel()
        let (far, near) = (far, near)
        try await far.bulk.expecting(from: near.id) { expected in
            async let accepted = far.connector.accept(over: tunnel.target, timeout: .seconds(10)) { _ in true }
            let stream = try await near.connector.openBulk(expected.token, to: far.id, over: tunnel.opener)
            _ = try await accepted
            let peer = try #require(await expected.stream())
            try await peer.use { _, writer in
                try await BulkReceiver.receiving(over: stream) { try await body($0, writer, peer) }
            }
        }
        await relay.stop()
    }

    private static func write(_ frames: [BulkFrame], to writer: Writer) async throws {
        var buffer = ByteBuffer()
        for frame in frames { frame.write(to: &buffer) }
        try await writer.write(buffer)
    }

    private static func file(_ entry: UInt32, _ text: String) -> [BulkFrame] {
        let bytes = Array(text.utf8)
        return [
            .data(entry: entry, offset: 0, ByteBuffer(bytes: bytes)),
            .end(entry: entry, size: UInt64(bytes.count), Digest256(hashing: bytes)),
        ]
    }

    /// Each request gets its own entries, in whatever order they come, without the end of the stream.
    @Test func requestsGetTheirOwnEntries() async throws {
        try await receiving { receiver, writer, _ in
            let (one, other) = (Frames(), Frames())
            let isAsked = OneShot<Void>()
            async let first = receiver.expect(2, into: one) { first in
                #expect(first == 0)
                isAsked.settle(())
                return "one"
            }
            _ = await isAsked.wait()
            let second = try await receiver.expect(1, into: other) { first in
                #expect(first == 2)
                try await Self.write(Self.file(1, "b") + Self.file(2, "c") + [.abandoned(entry: 0)], to: writer)
                return "other"
            }
            #expect(try await first == "one" && second == "other")
            #expect(one.all == Self.file(1, "b") + [.abandoned(entry: 0)] && other.all == Self.file(0, "c"))
        }
    }

    /// Entries that nobody has asked for, ones that have ended, the end of the stream, and bytes that are no frame.
    @Test(arguments: 0..<5) func framesThatWereNotAskedForEndTheStream(attack: Int) async throws {
        try await receiving { receiver, writer, _ in
            let taken = Frames()
            await #expect {
                try await receiver.expect(2, into: taken) { _ in
                    switch attack {
                    case 0: try await Self.write(Self.file(2, "x"), to: writer)
                    case 1: try await Self.write(Self.file(.max, "x"), to: writer)
                    case 2: try await Self.write(Self.file(0, "x") + Self.file(0, "x"), to: writer)
                    case 3: try await Self.write([.complete], to: writer)
                    default: try await writer.write(ByteBuffer(repeating: 0xFF, count: 100))
                    }
                }
            } throws: { ($0 as? ShareFailure)?.problem == .invalid }
            // Nothing more is received.
            await #expect(throws: ShareFailure.self) { try await receiver.expect(1, into: taken) { _ in } }
        }
    }

    @Test func failureOfARequestIsThrown() async throws {
        try await receiving { receiver, _, _ in
            await #expect(throws: AppServiceError.self) {
                try await receiver.expect(1, into: Frames()) { _ in throw AppServiceError(.appServiceConnectionClosed) }
            }
        }
    }

    @Test func endOfTheStreamEndsAllRequests() async throws {
        try await receiving { receiver, _, peer in
            await #expect { try await receiver.expect(1, into: Frames()) { _ in peer.close() } } throws: {
                ($0 as? AppServiceError)?.code == .remoteSystemUnavailable
            }
        }
    }
}
