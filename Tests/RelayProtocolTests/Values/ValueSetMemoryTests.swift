// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayTesting
import Testing

@testable import RelayProtocol

/// The memory of a decoded message, estimated from its bytes.
@Suite struct ValueSetMemoryTests {
    static func memory(_ set: ValueSet) throws -> Int {
        var buffer = ByteBuffer()
        try set.encode(into: &buffer)
        return ValueSet.decodedMemory(of: buffer)
    }

    @Test func arrayOfSmallNumbersCountsWithItsStride() throws {
        let stride = MemoryLayout<ValueSet.Value>.stride
        let count = 100_000
        let memory = try Self.memory(["a": .array(Array(repeating: .int(0), count: count))])
        #expect(memory >= count * stride)
        #expect(memory < count * stride + 1_000)
    }

    @Test func dataAndTextCountAsTheirBytes() throws {
        let data = try Self.memory(["a": .data(Array(repeating: 0, count: 1 << 20))])
        #expect((1 << 20..<1 << 20 + 1_000).contains(data))
        let text = try Self.memory(["a": .string(String(repeating: "a", count: 1 << 20))])
        #expect((1 << 20..<1 << 20 + 1_000).contains(text))
    }

    @Test func manyKeysCountWithTheirEntries() throws {
        let set = ValueSet((0..<10_000).map { ("\($0)", .valueSet([:])) })
        #expect(try Self.memory(set) >= 10_000 * MemoryLayout<ValueSet.Entry>.stride)
    }

    @Test func smallMessageUsesLittleMemory() {
        // The largest claims that this few bytes can make, on every level.
        var buffer = ByteBuffer()
        for left in stride(from: 127, to: 1, by: -2) { buffer.writeBytes([0x98, UInt8(left)]) }
        #expect(ValueSet.decodedMemory(of: ByteBuffer(bytes: Array(repeating: 0x80, count: 128))) < 8 << 10)
        #expect(throws: ValueSetError.self) { try ValueSet(decoding: buffer) }
    }

    @Test func memoryOfUndecodableBytesIsEstimated() {
        var random = SeededGenerator(seed: 7)
        for _ in 0..<20_000 {
            let bytes = random.bytes(Int.random(in: 0...60, using: &random))
            #expect(ValueSet.decodedMemory(of: ByteBuffer(bytes: bytes)) >= 0)
        }
        // Nested heads that each claim a large count.
        let claims = ByteBuffer(bytes: (0..<20_000).flatMap { _ in [0x9A, 0, 0, 0x30, 0] as [UInt8] })
        #expect(ValueSet.decodedMemory(of: claims) > 1 << 30)
        #expect(ValueSet.decodedMemory(of: ByteBuffer(bytes: [0xBB] + Array(repeating: 0xFF, count: 8))) == 0)
    }
}
