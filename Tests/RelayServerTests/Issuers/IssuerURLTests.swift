// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayServer

@Suite struct IssuerURLTests {
    @Test(arguments: [
        (
            "https://issuer.example",
            ["https://issuer.example/.well-known/oauth-authorization-server", "https://issuer.example/.well-known/openid-configuration"]
        ),
        (
            "https://issuer.example:8443/a/b/",
            [
                "https://issuer.example:8443/.well-known/oauth-authorization-server/a/b",
                "https://issuer.example:8443/a/b/.well-known/openid-configuration",
            ]
        ),
        (
            "http://[::1]:80/a",
            ["http://[::1]/.well-known/oauth-authorization-server/a", "http://[::1]/a/.well-known/openid-configuration"]
        ),
    ])
    func metadataAddressesFollowBothSpecifications(text: String, addresses: [String]) throws {
        let url = try #require(IssuerURL(text))
        #expect(url.description == text)
        #expect(url.metadataAddresses.map(\.description) == addresses)
    }

    @Test(arguments: [
        "", "issuer.example", "http://issuer.example", "ftp://issuer.example", "https://", "https://user@issuer.example/",
        "https://issuer.example/?a", "https://issuer.example/#a", "https://issuer.example/a b", "https://issuer.example/\u{E4}",
        "https://issuer.example:99999", "HTTPS://issuer.example", "https://issuer.example\\a",
    ])
    func invalidURLsAreRejected(text: String) {
        #expect(IssuerURL(text) == nil)
    }
}
