// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayServer
import Testing

@Suite struct StrangerCountTests {
    @Test func anIPv6NetworkIsOneAddress() throws {
        let strangers = StrangerCount(allowed: 1)
        func admit(_ address: String) throws -> StrangerCount.Ticket? {
            strangers.admit(try SocketAddress(ipAddress: address, port: 1))
        }
        let first = try #require(try admit("2001:db8::1"))
        #expect(try admit("2001:db8:0:0:ffff:1:2:3") == nil)
        #expect(try admit("2001:db8:0:1::1") != nil)
        #expect(try admit("192.0.2.1") != nil)
        #expect(try admit("192.0.2.2") != nil)
        #expect(try admit("192.0.2.1") == nil)
        #expect(try admit("::ffff:192.0.2.7") != nil)
        #expect(try admit("::ffff:192.0.2.8") != nil)
        first.release()
        first.release()
        #expect(try admit("2001:db8::2") != nil)
    }
}
