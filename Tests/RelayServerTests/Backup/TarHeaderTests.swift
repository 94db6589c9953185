// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@testable import RelayServer

@Suite struct TarHeaderTests {
    @Test(arguments: [0, 1, 511, 512, 1 << 20, TarHeader.maximumSize]) func whatIsWrittenIsRead(size: Int64) throws {
        let header = try #require(TarHeader(name: "relay.sqlite", size: size))
        let block = header.encoded(time: 1_700_000_000)
        #expect(block.count == TarHeader.blockBytes)
        #expect(TarHeader(decoding: block) == header)
    }

    @Test func whatDoesNotFitIsNone() {
        #expect(TarHeader(name: "", size: 1) == nil)
        #expect(TarHeader(name: String(repeating: "a", count: 100), size: 1) == nil)
        #expect(TarHeader(name: "a\0b", size: 1) == nil)
        #expect(TarHeader(name: "a", size: -1) == nil)
        #expect(TarHeader(name: "a", size: TarHeader.maximumSize + 1) == nil)
    }

    @Test func filesFillTheirBlocks() {
        #expect([0, 1, 511, 512, 513].map { TarHeader.padding(of: $0) } == [0, 511, 1, 0, 511])
    }

    @Test func noOtherBlockIsAHeader() throws {
        let header = try #require(TarHeader(name: "relay.key", size: 227))
        let block = header.encoded(time: 1_700_000_000)
        for index in block.indices {
            for bit in 0..<8 {
                var changed = block
                changed[index] ^= 1 << bit
                // The sum covers all of the block.
                #expect(TarHeader(decoding: changed) == nil || (148..<156).contains(index), "byte \(index)")
            }
        }
        #expect(TarHeader(decoding: []) == nil)
        #expect(TarHeader(decoding: [UInt8](repeating: 0, count: 512)) == nil)
        #expect(TarHeader(decoding: [UInt8](repeating: 0xFF, count: 512)) == nil)
        #expect(TarHeader(decoding: Array(block.dropLast())) == nil)
    }
}
