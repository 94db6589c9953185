// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayStorage
import RelayTesting
import Testing

@testable import RelayServer

@Suite struct TarHeaderTests {
    /// The first size that eleven octal digits do not say.
    private static let large: Int64 = 0x2_0000_0000
    private static let sizes: [Int64] = [0, 1, 511, 512, large - 1, large, large + 1, .max]
    private static let archived: [Int64] = [large - 512, large, large + 512]

    @Test(arguments: sizes) func headerSurvivesEncodingAndDecoding(size: Int64) throws {
        let header = try #require(TarHeader(name: "relay.sqlite", size: size))
        let block = header.encoded(time: 1_700_000_000)
        #expect(block.count == TarHeader.blockBytes)
        #expect(TarHeader(decoding: block) == header)
    }

    @Test func invalidNameOrSizeMakesNoHeader() {
        #expect(TarHeader(name: "", size: 1) == nil)
        #expect(TarHeader(name: String(repeating: "a", count: 100), size: 1) == nil)
        #expect(TarHeader(name: "a\0b", size: 1) == nil)
        #expect(TarHeader(name: "a", size: -1) == nil)
    }

    /// The size field is the only one that may hold more than octal digits; what no size can be is none.
    @Test func impossibleSizeIsNotDecoded() throws {
        let block = try #require(TarHeader(name: "a", size: Self.large)).encoded(time: 0)
        for (index, byte) in [(124, 0x81), (124, 0xFF), (125, 1), (127, 1), (128, 0x80)] as [(Int, UInt8)] {
            var changed = block
            changed[index] = byte
            let sum = changed.enumerated().reduce(0) { $0 + ((148..<156).contains($1.offset) ? 0x20 : Int($1.element)) }
            changed.replaceSubrange(148..<154, with: String(sum + 0o1_000_000, radix: 8).utf8.suffix(6))
            #expect(TarHeader(decoding: changed) == nil, "byte \(index)")
        }
    }

    /// Beyond what octal digits say, and just below: `tar` finds the file behind.
    @Test(arguments: archived) func tarReadsAnArchiveOfAnySize(size: Int64) async throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "size-\(UUID().uuidString).tar").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        let file = try StorageFile(creating: path)
        try file.append(try #require(TarHeader(name: "large", size: size)).encoded(time: 1))
        // A hole takes no room on the disk.
        #expect(truncate(path, off_t(TarHeader.blockBytes) + off_t(size)) == 0)
        let end = try FileHandle(forWritingTo: URL(filePath: path))
        try end.seekToEnd()
        try end.write(
            contentsOf: Data(try #require(TarHeader(name: "last", size: 0)).encoded(time: 1) + [UInt8](repeating: 0, count: 1_024))
        )
        try end.close()
        let lines = try await ProcessRun.output(of: ["tar", "tvf", path]).split(separator: "\n")
        #expect(lines.count == 2)
        #expect(lines.first?.contains(" \(size) ") == true)
        #expect(lines.last?.hasSuffix(" last") == true)
    }

    @Test func paddingFillsTheLastBlock() {
        #expect([0, 1, 511, 512, 513].map { TarHeader.padding(of: $0) } == [0, 511, 1, 0, 511])
    }

    @Test func damagedBlockIsNotDecoded() throws {
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
