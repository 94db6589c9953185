// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import Testing

@testable import RelayProtocol

@Suite struct PublicAddressTests {
    @Test(arguments: [
        "8.8.8.8", "172.15.255.255", "172.32.0.1", "100.63.0.1", "100.128.0.1", "169.253.1.1", "192.0.1.1", "198.17.0.1", "198.20.0.1",
        "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1",
    ])
    func isPublic(_ address: String) throws {
        #expect(try #require(IPAddress(try SocketAddress(ipAddress: address, port: 443))).isPublic == true)
    }

    @Test(arguments: [
        "0.0.0.0", "10.1.2.3", "100.64.0.1", "100.127.255.255", "127.0.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8",
        "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "224.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fc00::1",
        "fd00::1", "ff02::1", "::ffff:10.0.0.1", "64:ff9b::192.168.0.1", "2002:c0a8:101::1", "2001:0::1", "2001:db8::1", "3fff:1::1",
        "64:ff9b:1::1",
        "::127.0.0.1",
    ])
    func isNot(_ address: String) throws {
        #expect(try #require(IPAddress(try SocketAddress(ipAddress: address, port: 443))).isPublic == false)
    }
}
