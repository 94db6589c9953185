// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct BulkFrameTests {
    private static func decode(_ bytes: [UInt8], pieces: (Int) -> Int) throws(BulkError) -> ([BulkFrame], BulkFrameDecoder) {
        var (decoder, frames, rest) = (BulkFrameDecoder(), [BulkFrame](), bytes[...])
        while !rest.isEmpty {
            let count = min(rest.count, max(1, pieces(rest.count)))
            decoder.append(ByteBuffer(bytes: rest.prefix(count)))
            rest = rest.dropFirst(count)
            while let frame = try decoder.next() { frames.append(frame) }
        }
        return (frames, decoder)
    }

    /// Data frames that arrive in pieces, joined again.
    private static func joined(_ frames: [BulkFrame]) -> [BulkFrame] {
        frames.reduce(into: []) { all, frame in
            if case .data(let entry, let offset, let data) = frame, case .data(entry, let start, var before)? = all.last,
                start + UInt64(before.readableBytes) == offset
            {
                before.writeImmutableBuffer(data)
                all[all.count - 1] = .data(entry: entry, offset: start, before)
            } else {
                all.append(frame)
            }
        }
    }

    @Test func framesInAnyPiecesAreTheSame() throws {
        var random = SeededGenerator(seed: Sweep.seed)
        for _ in 0..<Sweep.count(100, full: 5_000) {
            var sent: [BulkFrame] = []
            for entry in 0..<UInt32.random(in: 1...20, using: &random) {
                if random.oneIn(4) {
                    sent.append(.abandoned(entry: entry))
                    continue
                }
                let content = random.bytes(Int.random(in: 1...300, using: &random))
                sent.append(.data(entry: entry, offset: .random(in: 0...1 << 40, using: &random), ByteBuffer(bytes: content)))
                sent.append(.end(entry: entry, size: UInt64(content.count), Digest256(hashing: content)))
            }
            sent.append(.complete)
            var buffer = ByteBuffer()
            for frame in sent { frame.write(to: &buffer) }
            let (frames, decoder) = try Self.decode(Array(buffer.readableBytesView)) { Int.random(in: 1...$0, using: &random) }
            #expect(Self.joined(frames) == sent, "seed \(Sweep.seed)")
            #expect(decoder.hasEnded)
        }
    }

    private static func header(_ kind: UInt8, entry: UInt32 = 0, offset: UInt64 = 0, length: UInt32) -> [UInt8] {
        var buffer = ByteBuffer()
        buffer.writeMultipleIntegers(kind, entry, offset, length)
        return Array(buffer.readableBytesView)
    }

    @Test(arguments: [
        (header(0, length: 1), BulkError.unknownKind),
        (header(5, length: 0), .unknownKind),
        (header(1, length: 0), .lengthInvalid),
        (header(1, length: (1 << 20) + 1), .lengthInvalid),
        (header(1, length: .max), .lengthInvalid),
        (header(1, offset: .max, length: 1), .lengthInvalid),
        (header(2, length: 31), .lengthInvalid),
        (header(2, length: 33), .lengthInvalid),
        (header(3, length: 1), .lengthInvalid),
        (header(4, length: 1), .lengthInvalid),
        (header(4, length: 0) + [0], .afterEnd),
    ])
    func badFramesAreRefusedForGood(bytes: [UInt8], error: BulkError) {
        #expect(throws: error) { try Self.decode(bytes) { $0 } }
        var decoder = BulkFrameDecoder()
        decoder.append(ByteBuffer(bytes: bytes))
        #expect(throws: error) { while try decoder.next() != nil {} }
        decoder.append(ByteBuffer(bytes: Self.header(4, length: 0)))
        #expect(throws: error) { try decoder.next() }
    }

    @Test func generatedBytesNeverTrap() {
        var random = SeededGenerator(seed: Sweep.seed)
        for _ in 0..<Sweep.count(2_000, full: 200_000) {
            var bytes = random.bytes(Int.random(in: 0...100, using: &random))
            if let first = bytes.first { bytes[0] = first % 6 }
            _ = try? Self.decode(bytes) { Int.random(in: 1...$0, using: &random) }
        }
    }
}
