// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import RelayServer
import Testing

@Suite struct UnauthenticatedConnectionsTests {
    @Test func anIPv6NetworkIsOneAddress() throws {
        let connections = UnauthenticatedConnections(allowed: 1)
        func admit(_ address: String) throws -> UnauthenticatedConnections.Ticket? {
            connections.admit(try SocketAddress(ipAddress: address, port: 1))
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

    private static let proxy = "10.0.0.1"

    private func viaProxy(allowed: Int = 1) throws -> UnauthenticatedConnections {
        UnauthenticatedConnections(allowed: allowed, proxies: TrustedProxies([try #require(IPNetwork(parsing: "10.0.0.0/8"))]))
    }

    private func admit(_ connections: UnauthenticatedConnections, from address: String = proxy) throws -> UnauthenticatedConnections.Ticket
    {
        try #require(connections.admit(try SocketAddress(ipAddress: address, port: 1)))
    }

    @Test func proxyConnectionCountsForTheClientOfItsRequest() throws {
        let connections = try viaProxy()
        let (first, second, third) = (try admit(connections), try admit(connections), try admit(connections))
        #expect(first.requestBegins(forwardedFor: ["192.0.2.1"]))
        #expect(!second.requestBegins(forwardedFor: ["192.0.2.1"]))
        #expect(third.requestBegins(forwardedFor: ["192.0.2.2"]))
        // As one that comes by itself.
        #expect(connections.admit(try SocketAddress(ipAddress: "192.0.2.1", port: 1)) == nil)
        first.release()
        #expect(second.requestBegins(forwardedFor: ["192.0.2.1"]))
        second.release()
        third.release()
        #expect(connections.total == 0)
    }

    @Test func proxyConnectionCountsForNoClientAfterTheAnswer() throws {
        let connections = try viaProxy()
        let first = try admit(connections)
        #expect(first.requestBegins(forwardedFor: ["192.0.2.1"]))
        first.requestEnds()
        let second = try admit(connections)
        #expect(second.requestBegins(forwardedFor: ["192.0.2.1"]))
        #expect(!first.requestBegins(forwardedFor: ["192.0.2.1"]))
        #expect(first.requestBegins(forwardedFor: ["192.0.2.9"]))
    }

    @Test func eachProxyHasItsOwnBound() throws {
        let connections = try viaProxy()
        let tickets = try (0..<16).map { _ in try admit(connections) }
        #expect(connections.admit(try SocketAddress(ipAddress: Self.proxy, port: 1)) == nil)
        // Another proxy has its own.
        _ = try admit(connections, from: "10.0.0.2")
        #expect(tickets[0].requestBegins(forwardedFor: ["192.0.2.1"]))
        _ = try admit(connections)
    }

    @Test func forwardedForOfAnUntrustedClientDoesNotCount() throws {
        let connections = try viaProxy()
        let ticket = try admit(connections, from: "192.0.2.1")
        #expect(ticket.requestBegins(forwardedFor: ["192.0.2.2"]))
        _ = try admit(connections, from: "192.0.2.2")
        #expect(connections.admit(try SocketAddress(ipAddress: "192.0.2.1", port: 1)) == nil)
    }
}
