// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import Testing

@testable import RelayAgent

/// Where messages of webhooks may go.
@Suite struct WebhookAddressTests {
    private static let token = Result {
        try APIToken(name: "t", scopes: ["webhooks"], devices: nil, schemes: nil, services: nil, life: nil)
    }

    private func principals() throws -> (owner: Principal, token: Principal) { (.owner, .token(try Self.token.get())) }

    private func addresses(_ url: String, _ principal: Principal, _ found: [String]) async throws -> [String] {
        try await WebhookAddress(url, for: principal).addresses { _, port in
            found.compactMap { try? SocketAddress(ipAddress: $0, port: port) }
        }.compactMap(\.ipAddress)
    }

    @Test func publicAddressesAreForAll() async throws {
        let (owner, token) = try principals()
        for principal in [owner, token] {
            #expect(try await addresses("https://hooks.example/a", principal, ["8.8.8.8", "2606:4700::1"]) == ["8.8.8.8", "2606:4700::1"])
            // A host without an address may have one later.
            #expect(try await addresses("https://hooks.example/a", principal, []).isEmpty)
            #expect(try await addresses("https://hooks.example/a", principal, ["8.8.8.8", "8.8.8.1", "8.8.8.2", "8.8.8.3"]).count == 3)
        }
    }

    @Test(arguments: [
        "127.0.0.1", "::1", "0.0.0.0", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "fd00::1", "::ffff:127.0.0.1",
        "64:ff9b::10.0.0.1", "2002:a00:1::1", "224.0.0.1",
    ]) func privateAddressesAreForTheOwner(address: String) async throws {
        let (owner, token) = try principals()
        for url in ["https://hooks.example/", "http://hooks.example:8123/a?b"] {
            #expect(try await addresses(url, owner, [address]).count == 1)
            await #expect(throws: AgentError.self) { try await addresses(url, token, [address]) }
        }
        // One of several is enough: any of them may be dialled.
        await #expect(throws: AgentError.self) { try await addresses("https://hooks.example/", token, ["8.8.8.8", address]) }
    }

    @Test(arguments: [
        "169.254.169.254", "169.254.0.1", "fe80::1", "febf::1", "::ffff:169.254.169.254", "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1",
        "fd00:ec2::254", "100.100.100.200", "168.63.129.16",
    ]) func linkLocalAddressesAreForNobody(address: String) async throws {
        let (owner, token) = try principals()
        for principal in [owner, token] {
            for found in [[address], ["8.8.8.8", address]] {
                await #expect(throws: AgentError.self) { try await addresses("https://hooks.example/", principal, found) }
            }
        }
    }

    @Test func otherFormsAreRefused() throws {
        let (owner, token) = try principals()
        for url in [
            "", "hooks.example", "ftp://hooks.example/", "https:///a", "https://", "https://a:b@hooks.example/", "https://h%2e.example/",
            "https://höoks.example/", "https://hooks.example:0/", "https://hooks.example:65536/", "https://hooks.example/\r\nX: y",
            "https://hooks.example/a b", "file:///etc/passwd", "unix:/run/x.sock",
            "https://hooks.example/" + String(repeating: "a", count: WebhookAddress.longest),
        ] {
            for principal in [owner, token] {
                #expect(throws: AgentError.self, "\(url.prefix(60))") { try WebhookAddress(url, for: principal) }
            }
        }
        #expect(throws: AgentError.self) { try WebhookAddress("http://hooks.example/", for: token) }
        _ = try WebhookAddress("http://hooks.example/", for: owner)
    }
}
