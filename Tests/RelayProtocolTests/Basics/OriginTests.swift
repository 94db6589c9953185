// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@Suite struct OriginTests {
    @Test func originsAreNormalized() {
        #expect(Origin("HTTPS://Relay.Example:443/")?.description == "https://relay.example")
        #expect(Origin("http://[::1]:8080")?.description == "http://[::1]:8080")
        #expect(Origin("http://relay")?.port == 80)
    }

    @Test(arguments: [
        "", "relay.example", "ftp://relay", "https://", "https://relay/path", "https://user@relay", "https://relay:0",
        "https://relay:65536",
        "https://relay:1a", "https://[::1", "https://[relay]", "https://re lay", "https://relay?x", "https:///",
    ])
    func invalidOriginsAreRejected(text: String) {
        #expect(Origin(text) == nil)
    }

    @Test func onlyLocalAddressesAreLoopback() {
        for host in ["localhost", "LOCALHOST", "127.0.0.1", "127.255.0.9", "::1"] {
            #expect(Origin(scheme: "http", host: host, port: 80).isLoopback, "\(host)")
        }
        for host in ["relay", "127.1", "127.0.0.1.example", "127.0.0.256", "128.0.0.1", "::2", "localhost.example"] {
            #expect(!Origin(scheme: "http", host: host, port: 80).isLoopback, "\(host)")
        }
    }
}
