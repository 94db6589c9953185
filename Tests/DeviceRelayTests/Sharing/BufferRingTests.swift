// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import Testing

@testable import DeviceRelay

struct BufferRingTests {
    private var ring = BufferRing(2)

    private mutating func next(_ text: String) -> ByteBuffer { ring.next(minimumCapacity: 1_024) { $0.writeString(text) } }

    private func address(_ buffer: ByteBuffer) -> UnsafeRawPointer? { buffer.withVeryUnsafeBytes { $0.baseAddress } }

    @Test("A buffer that nobody reads any more is filled again")
    mutating func fillsAgain() {
        let first = address(next("one"))
        let second = address(next("two"))
        #expect(second != first)
        let third = next("three")
        #expect(address(third) == first)
        #expect(String(buffer: third) == "three")
    }

    @Test("A buffer that is still read keeps its content")
    mutating func keepsWhatIsRead() {
        let read = (1...5).map { next("\($0)") }
        #expect(read.map { String(buffer: $0) } == ["1", "2", "3", "4", "5"])
    }

    @Test("A buffer grows for more content")
    mutating func grows() {
        _ = next("small")
        let large = ring.next(minimumCapacity: 4) { $0.writeRepeatingByte(7, count: 100_000) }
        #expect(large.readableBytes == 100_000)
        #expect(large.readableBytesView.allSatisfy { $0 == 7 })
    }
}
