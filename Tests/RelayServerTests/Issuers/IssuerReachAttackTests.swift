// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import Testing

@testable import RelayServer

/// An issuer on the Internet names addresses that are nearer to the relay than itself.
@Suite struct IssuerReachAttackTests {
    @Test func nearerAddressGetsNoRequest() async throws {
        let inside = try await IssuerServer()
        let url = try #require(IssuerURL(inside.url + "/keys"))
        let client = IssuerHTTPClient()
        #expect(try await client.send(to: url).status == 200)
        for nearest in [NetworkReach.local, .global] {
            await #expect(throws: IssuerHTTPClient.Failure.addressNotAllowed) { try await client.send(to: url, nearest: nearest) }
        }
        #expect(inside.count("/tenant/keys") == 1)
    }

    /// Metadata says where it came from, and what it names must be as far.
    @Test func metadataOfALoopbackIssuerMayNameLoopback() async throws {
        let issuer = try await IssuerServer(signers: [.es256("a")])
        let url = try #require(IssuerURL(issuer.url))
        let remote = RemoteIssuer(url: url, credentials: nil, now: { 0 }, isPublic: { _ in true })
        #expect(try await remote.keys().keys.keys.count == 1)
    }

    @Test(arguments: [
        ("127.0.0.1", NetworkReach.loopback), ("127.255.0.9", .loopback), ("0.0.0.0", .loopback), ("::1", .loopback), ("::", .loopback),
        ("::ffff:127.0.0.1", .loopback), ("10.0.0.1", .local), ("192.168.1.1", .local), ("fd00::1", .local), ("192.0.2.1", .global),
    ])
    func reachOfAnAddress(text: String, reach: NetworkReach) throws {
        let address = IPAddress(try SocketAddress(ipAddress: text, port: 443))
        let found = NetworkReach(of: address) { address in
            // The classes of addresses have tests of their own.
            !["10.", "192.168", "fd"].contains { address.description.hasPrefix($0) }
        }
        #expect(found == reach)
        #expect(NetworkReach.loopback < .local && NetworkReach.local < .global)
    }
}
