// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@testable import DeviceRelay

/// The scopes that a sign-in requests of an issuer.
@Suite struct RequestedScopesTests {
    private func requested(own: Bool = false, listed: Set<String>?, lacksThem: Bool = false) throws -> String {
        let relay = try RelayAddress(try #require(URL(string: "https://relay.example")))
        let url = try #require(ServerURL("https://issuer.example", namedBy: relay))
        let issuer = IssuerClient.Issuer(
            url: url,
            isRelaysOwn: own,
            tokenEndpoint: url,
            takesProofs: true,
            namesItselfInResponses: true,
            scopes: listed,
            lacksRelayScopes: lacksThem
        )
        return issuer.scopeParameter(for: AccessTokenScope.all)
    }

    private let relays = "relay.command relay.device.read relay.device.register relay.push"

    @Test func relaysOwnIssuerIsAskedForAll() throws {
        #expect(try requested(own: true, listed: ["relay.command"]) == "offline_access \(relays)")
    }

    @Test func listedScopesOfTheRelayAreRequested() throws {
        #expect(try requested(listed: ["openid", "relay.command", "offline_access", "email"]) == "offline_access openid relay.command")
    }

    /// Glewlwyd lists `openid` only, whatever its operator has added.
    @Test func unlistedScopesOfTheRelayAreRequested() throws {
        #expect(try requested(listed: nil) == "offline_access \(relays)")
        #expect(try requested(listed: ["openid", "email"]) == "openid \(relays)")
    }

    @Test func issuerThatCannotDefineThemIsNotAskedForThem() throws {
        #expect(try requested(listed: ["openid", "offline_access", "email"], lacksThem: true) == "offline_access openid")
        #expect(try requested(listed: nil, lacksThem: true) == "offline_access")
    }
}
