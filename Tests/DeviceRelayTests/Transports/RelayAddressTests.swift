// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Testing

@Suite struct RelayAddressTests {
    @Test(arguments: [
        ("https://relay.example", "https://relay.example", 443, "/v1/connect"),
        ("HTTPS://Relay.Example:443/", "https://relay.example", 443, "/v1/connect"),
        ("wss://relay.example:8443/home//", "https://relay.example:8443", 8443, "/home/v1/connect"),
        ("http://127.0.0.1", "http://127.0.0.1", 80, "/v1/connect"),
        ("http://localhost:8080/a%20b", "http://localhost:8080", 8080, "/a%20b/v1/connect"),
        ("ws://[::1]:81", "http://[::1]:81", 81, "/v1/connect"),
    ]) func relayURLsAreParsed(_ url: String, _ origin: String, _ port: Int, _ path: String) throws {
        let address = try RelayAddress(try #require(URL(string: url)))
        #expect(address.origin == origin)
        #expect(address.port == port)
        #expect(address.path == path)
    }

    @Test(arguments: [
        "ftp://relay.example", "relay.example", "https://", "https://user@relay.example", "https://u:p@relay.example",
        "https://relay.example?x=1",
        "https://relay.example#x", "https://relay.example:0", "https://relay.example:65536", "file:///etc/passwd",
    ]) func invalidRelayURLsAreRejected(_ url: String) {
        #expect(throws: RelayAddress.Problem.malformed) {
            guard let url = URL(string: url) else { throw RelayAddress.Problem.malformed }
            _ = try RelayAddress(url)
        }
    }

    @Test(arguments: ["http://relay.example", "ws://192.168.1.2", "http://127.0.0.1.example", "http://127.1"])
    func plaintextIsAllowedForLoopbackOnly(_ url: String) throws {
        let url = try #require(URL(string: url))
        #expect(throws: RelayAddress.Problem.notEncrypted) { _ = try RelayAddress(url) }
        _ = try RelayAddress(url, allowsPlaintext: true)
    }
}
