// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct BulkContentTests {
    /// However a content is cut, begun again and continued, it is whole exactly at its end.
    @Test func contentInAnyPartsIsWhole() throws {
        var random = SeededGenerator(seed: Sweep.seed)
        for _ in 0..<Sweep.count(200, full: 10_000) {
            let bytes = random.bytes(Int.random(in: 0...200, using: &random))
            let digest = Digest256(hashing: bytes)
            var content = BulkContent(size: Int64(bytes.count))
            var there = 0
            while there < bytes.count {
                #expect(!content.isWhole(digest))
                let start = random.oneIn(8) ? 0 : there
                let end = Int.random(in: start + 1...bytes.count, using: &random)
                #expect(try content.add(ByteBuffer(bytes: bytes[start..<end]), at: UInt64(start)) == Int64(end - there))
                there = end
                #expect(content.position == Int64(there) && content.digest == Digest256(hashing: Array(bytes[..<there])))
            }
            #expect(content.isWhole(digest), "seed \(Sweep.seed)")
            #expect(!content.isWhole(Digest256(hashing: bytes + [0])))
        }
    }

    /// Any other part is refused, and changes nothing.
    @Test func misplacedPartsAreRefused() throws {
        var random = SeededGenerator(seed: Sweep.seed)
        for size in [0, 1, 5, 100, Int64.max] {
            let start = min(size, 5)
            var hash = DigestStream()
            [UInt8](repeating: 1, count: Int(start)).withUnsafeBytes { hash.add($0) }
            var content = BulkContent(size: size, position: start, hash: hash)
            let digest = content.digest
            let offsets = [1, 4, 6, 99, UInt64(Int64.max) - 1, UInt64(Int64.max), 1 << 63, .max, .random(in: 6 ... .max, using: &random)]
            for offset in offsets where offset != UInt64(start) {
                #expect(throws: BulkError.misplaced) { try content.add(ByteBuffer(bytes: [1]), at: offset) }
            }
            if size < .max {
                for offset in [0, start] {
                    let bytes = ByteBuffer(repeating: 1, count: Int(size - offset) + 1)
                    #expect(throws: BulkError.misplaced) { try content.add(bytes, at: UInt64(offset)) }
                }
            }
            #expect(content.position == start && content.digest == digest)
        }
    }
}
