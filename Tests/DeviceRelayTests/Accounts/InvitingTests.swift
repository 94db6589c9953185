// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Invitations that an endpoint makes at a real relay.
@Suite(.serialized, .timeLimit(.minutes(10))) struct InvitingTests {
    static func token(_ endpoint: EndpointCredentials) throws -> AccessToken { AccessToken(try endpoint.stored().accessToken.exposed) }

    @Test func connectedEndpointMakesAnInvitation() async throws {
        let bench = try await JoiningBench()
        let endpoint = try await bench.connected()
        let invitation = try await makeInvitation(as: endpoint, accessToken: try Self.token(endpoint))
        #expect(invitation.secret.exposed.count == 32)
        #expect(invitation.ends > endpoint.now() + 500_000)
        // As the newcomer reads it.
        let link = try JoinLink(parsing: invitation.link.text, plainHTTP: .allowed)
        #expect(link == invitation.link)
        #expect(link.proofSecret == invitation.secret)
        let newcomer = try bench.endpoint(relay: link.relay)
        try await redeem(link, clientID: JoiningBench.clientID, as: newcomer)
        let subjects = try [endpoint, newcomer].map { endpoint in
            try SignedJSON(parsing: try Self.token(endpoint).value).claims(JSONValue.self).member("sub") as String
        }
        #expect(subjects[0] == subjects[1])
        // No endpoint that the relay knows has approved it.
        let token = try Self.token(newcomer)
        #expect(
            await accountError { () async throws(AccountError) in _ = try await makeInvitation(as: newcomer, accessToken: token) }
                == .accessTokenRequestFailed
        )
    }

    @Test func tokenOfAnotherKeyMakesNoInvitation() async throws {
        let bench = try await JoiningBench()
        let endpoint = try await bench.connected()
        let token = try Self.token(endpoint)
        let thief = try bench.endpoint(relay: endpoint.relay)
        #expect(
            await accountError { () async throws(AccountError) in _ = try await makeInvitation(as: thief, accessToken: token) }
                == .accessTokenRequestFailed
        )
        let foreign = AccessToken("opaque-token-of-another-issuer")
        #expect(
            await accountError { () async throws(AccountError) in _ = try await makeInvitation(as: endpoint, accessToken: foreign) }
                == .accessTokenRequestFailed
        )
    }

    @Test func revokedLoginMakesNoInvitation() async throws {
        let bench = try await JoiningBench()
        let endpoint = try await bench.connected()
        let token = try Self.token(endpoint)
        #expect(try await bench.revoke(try #require(try endpoint.stored().refreshToken), at: endpoint) == 200)
        #expect(
            await accountError { () async throws(AccountError) in _ = try await makeInvitation(as: endpoint, accessToken: token) }
                == .accessTokenRequestFailed
        )
    }
}
