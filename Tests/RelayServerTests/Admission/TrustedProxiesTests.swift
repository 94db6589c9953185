// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import RelayServer
import Testing

/// Which address a request comes from.
@Suite struct TrustedProxiesTests {
    @Test(
        arguments: [
            ("192.0.2.1", "192.0.2.1", "192.0.2.1/32"), ("2001:DB8::1", "2001:db8::1", "2001:db8::/64"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"), ("::ffff:192.0.2.1", "192.0.2.1", "192.0.2.1/32"),
            ("::1", "::1", "::/64"),
        ]
    ) func addressHasOneCanonicalForm(text: String, address: String, network: String) throws {
        let read = try #require(IPAddress(parsing: text.utf8))
        #expect(read.description == address)
        #expect(read.network.description == network)
        #expect(IPAddress(try SocketAddress(ipAddress: text, port: 1)) == read)
    }

    @Test(
        arguments: [
            "", ":", "1", "192.0.2", "192.0.2.256", "192.0.2.1:80", "[2001:db8::1]", "2001:db8::1%eth0", "fe80::1%1", "192.0.2.1 ",
            "localhost", "unknown", "_hidden", "1.2.3.4\u{0}", "1.2.3.4\u{301}", "::1::", "12345::", "0x7f.1", "127.1",
        ]
    ) func invalidAddressIsRejected(text: String) { #expect(IPAddress(parsing: text.utf8) == nil) }

    @Test func networkContainsItsAddresses() throws {
        func holds(_ network: String, _ address: String) throws -> Bool {
            try #require(IPNetwork(parsing: network)).contains(try #require(IPAddress(parsing: address.utf8)))
        }
        #expect(try holds("10.0.0.0/8", "10.255.0.1"))
        #expect(try !holds("10.0.0.0/8", "11.0.0.1"))
        #expect(try holds("10.1.2.3/9", "10.127.0.1"))
        #expect(try !holds("10.1.2.3/9", "10.128.0.1"))
        #expect(try holds("127.0.0.1", "127.0.0.1"))
        #expect(try !holds("127.0.0.1", "127.0.0.2"))
        #expect(try holds("::/0", "2001:db8::1"))
        #expect(try !holds("::/0", "192.0.2.1"))
        #expect(try holds("2001:db8::/33", "2001:db8:7fff::1"))
        #expect(try !holds("2001:db8::/33", "2001:db8:8000::1"))
    }

    @Test(arguments: ["10.0.0.0/33", "::/129", "10.0.0.0/", "/8", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/8/8", "proxy", "10.0.0.0/٨"])
    func invalidNetworkIsRejected(text: String) { #expect(IPNetwork(parsing: text) == nil) }

    private func client(_ peer: String, _ fields: [String]) throws -> String? {
        let proxies = TrustedProxies(try ["10.0.0.0/8", "2001:db8:ffff::1"].map { try #require(IPNetwork(parsing: $0)) })
        return proxies.client(of: try SocketAddress(ipAddress: peer, port: 1), forwardedFor: fields)?.description
    }

    @Test func lastUntrustedAddressIsTheClient() throws {
        #expect(try client("10.0.0.1", ["192.0.2.1"]) == "192.0.2.1")
        #expect(try client("10.0.0.1", ["192.0.2.1, 192.0.2.2"]) == "192.0.2.2")
        #expect(try client("10.0.0.1", ["192.0.2.1,192.0.2.2 ,\t10.0.0.9"]) == "192.0.2.2")
        #expect(try client("10.0.0.1", ["192.0.2.1", "192.0.2.2"]) == "192.0.2.2")
        #expect(try client("2001:db8:ffff::1", ["2001:db8::7"]) == "2001:db8::7")
        // What a client claims stands before it.
        #expect(try client("10.0.0.1", ["nonsense, 10.0.0.5, 192.0.2.2"]) == "192.0.2.2")
        // A proxy's own request.
        #expect(try client("10.0.0.1", ["10.0.0.2, 10.0.0.3"]) == "10.0.0.2")
    }

    @Test func unreadableForwardedForCountsForTheProxy() throws {
        for fields in [
            [], [""], ["unknown"], ["192.0.2.1,"], ["192.0.2.1, nonsense"], ["192.0.2.1", ""], ["192.0.2.1:80"], ["192.0.2.1, 10.0.0.2,"],
        ] {
            #expect(try client("10.0.0.1", fields) == "10.0.0.1", "\(fields)")
        }
    }

    @Test func forwardedForOfAnUntrustedPeerIsIgnored() throws {
        #expect(try client("192.0.2.9", ["192.0.2.1"]) == "192.0.2.9")
        #expect(
            TrustedProxies().client(of: try SocketAddress(ipAddress: "10.0.0.1", port: 1), forwardedFor: ["192.0.2.1"])?.description
                == "10.0.0.1"
        )
    }
}
