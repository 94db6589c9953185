// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import Testing

@testable import RelayServer

@Suite struct PongQueueTests {
    private func payload(_ byte: UInt8) -> ByteBuffer { ByteBuffer(integer: byte) }

    @Test func onlyTheNewestPingWaitsBehindAPong() {
        var pongs = PongQueue()
        #expect(pongs.received(payload(1)) == payload(1))
        #expect(pongs.received(payload(2)) == nil)
        #expect(pongs.received(payload(3)) == nil)
        #expect(pongs.sent() == payload(3))
        #expect(pongs.received(payload(4)) == nil)
        #expect(pongs.sent() == payload(4))
        #expect(pongs.sent() == nil)
        #expect(pongs.received(payload(5)) == payload(5))
    }
}
