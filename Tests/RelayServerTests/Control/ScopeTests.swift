// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

/// What each message needs of the token. What is written here is written once more in the code: a change has to be meant.
@Suite struct ScopeTests {
    private static let expected: [Intrusion.Kind: RelayScope?] = [
        .hello: .deviceRegister, .publish: .deviceRegister, .unpublish: .deviceRegister, .endpointUpdate: .deviceRegister,
        .endpointApprove: .deviceRegister, .endpointRevoke: .deviceRegister, .leaving: .deviceRegister, .watch: .deviceRead,
        .commandSend: .command, .commandCancel: .command, .commandReceived: .command, .commandResult: .command,
        .commandAcknowledge: .command, .tunnelOpen: .command, .tunnelDecline: .command, .tunnelCandidates: .command,
        .notificationsRegister: .push,
        .mailboxDrain: .command, .unwatch: nil, .authRefresh: nil, .identityLink: .deviceRegister,
    ]

    private static func hello(_ role: EndpointMessage.Hello.Role) -> EndpointMessage {
        .hello(
            .init(
                version: 1,
                token: Secret("t"),
                record: Blob([1]),
                origin: "https://relay.example",
                signature: Blob(Array(repeating: 0, count: 64)),
                role: role,
                instance: .random(),
                features: []
            )
        )
    }

    /// One message of each kind.
    private static func samples() throws -> [EndpointMessage] {
        let endpoint = EndpointID(P256SigningKey().publicKey)
        let id = try #require(CommandID("018f0000-0000-7000-8000-000000000001"))
        var random = SystemRandomNumberGenerator()
        return [
            hello(.host), .publish(.init(ref: .first, registration: Blob([1]))), .unpublish(.init(ref: .first, appID: "a")),
            .endpointUpdate(.init(ref: .first, record: Blob([1]))),
            .endpointApprove(.init(ref: .first, endpoint: endpoint, voucher: Blob([1]))),
            .endpointRevoke(.init(ref: .first, endpoint: endpoint, revocation: Blob([1]))),
            .leaving(.init(ref: .first, reason: .shutdown)),
            .notificationsRegister(.init(ref: .first, appID: "a", displayName: "A", channel: .polling(interval: nil))),
            .watch(.init(ref: .first)),
            .unwatch(.init(ref: .first)), .commandSend(.init(ref: .first, command: Blob([1]))),
            .commandCancel(.init(ref: .first, id: id)), .commandReceived(.init(sender: endpoint, id: id)),
            .commandResult(.init(ref: .first, sender: endpoint, id: id, receipt: Blob([1]))), .commandAcknowledge(.init(id: id)),
            .mailboxDrain(.init(ref: .first)), .tunnelOpen(.init(ref: .first, target: endpoint, timeout: 1)),
            .tunnelDecline(.init(tunnel: TunnelID(using: &random))), .authRefresh(.init(ref: .first, token: Secret("t"))),
            .identityLink(.init(ref: .first, token: Secret("t"))),
            .tunnelCandidates(.init(tunnel: TunnelID(using: &random), candidates: Blob([1]))),
        ]
    }

    @Test func everyMessageRequiresItsScope() throws {
        let samples = try Self.samples()
        #expect(Set(samples.map { Intrusion.Kind($0) }) == Set(Intrusion.Kind.allCases))
        for message in samples {
            let kind = Intrusion.Kind(message)
            let expected = try #require(Self.expected[kind])
            #expect(message.scope == expected, "\(kind)")
        }
        // A client is no device of the account; what it says needs its scopes.
        #expect(Self.hello(.client).scope == nil)
    }
}
