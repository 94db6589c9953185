// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import RelayServer

/// The operator of another service of the same issuer has tokens of its users, and a user of the issuer changes what it says of him. The relay
/// cannot see this in a token, so it warns at its start of an entry that would accept such a token.
@Suite struct ForeignServiceAttackTests {
    @Test(arguments: [
        (#""audience":"https://relay.example""#, nil), (#""audience":"https://relay.example/""#, nil),
        (#""audience":["https://relay.example","https://other.example"]"#, "https://other.example"),
        (#""audience":"device-relay""#, "device-relay"), (#""audience":{"scope":"relay.command"}"#, "relay.command"),
        (#""audience":"https://relay.example","accountClaim":"oid""#, nil),
        (#""audience":"https://relay.example","accountClaim":"email""#, "email"),
        (#""audience":"https://relay.example","accountClaim":"preferred_username""#, "preferred_username"),
    ])
    func entriesThatLetOthersInAreWarnedOf(members: String, word: String?) throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "issuers-\(UUID().uuidString).json").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        try Data(#"{"issuers":[{"issuer":"https://issuer.example",\#(members)}]}"#.utf8).write(to: URL(filePath: path))
        let settings = try #require(try IssuersFile(path: path, environment: [:]).issuers.first)
        let warnings = settings.warnings(origins: [try #require(Origin(scheme: "https", authority: "relay.example"))])
        #expect(warnings.count == (word == nil ? 0 : 1))
        #expect(warnings.allSatisfy { $0.contains(word ?? "") && $0.contains("https://issuer.example") }, "\(warnings)")
    }
}
