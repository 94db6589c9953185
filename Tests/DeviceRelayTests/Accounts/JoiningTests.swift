// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Joining a real relay by a link.
@Suite(.serialized, .timeLimit(.minutes(10))) struct JoiningTests {
    @Test func joinLinkBeginsOneLogin() async throws {
        let bench = try await JoiningBench()
        let link = try await bench.link()
        let endpoint = try bench.endpoint(relay: link.relay)
        try await redeem(link, clientID: JoiningBench.clientID, as: endpoint)
        let stored = try endpoint.stored()
        #expect(stored.issuer == bench.relayd.origin + "/auth")
        #expect(stored.clientID == JoiningBench.clientID)
        #expect(Set(stored.scopes) == Set(AccessTokenScope.all.map(\.rawValue)))
        #expect(stored.refreshToken != nil)
        #expect(stored.accessTokenExpires > endpoint.now())
        let token = try await JoinLinkAccessTokenProvider(clientID: JoiningBench.clientID).accessToken(for: try endpoint.request())
        #expect(token.value == stored.accessToken.exposed)

        // Once more by the same endpoint: it is the same login.
        try await redeem(link, clientID: JoiningBench.clientID, as: endpoint)
        #expect(try endpoint.stored().refreshToken == stored.refreshToken)
        try await endpoint.expire()
        #expect(try await tokenError(JoinLinkAccessTokenProvider(clientID: JoiningBench.clientID), endpoint) == nil)
    }

    @Test func secondUseOfAJoinLinkEndsTheFirstLogin() async throws {
        let bench = try await JoiningBench()
        let link = try await bench.link()
        let (thief, owner) = (try bench.endpoint(relay: link.relay), try bench.endpoint(relay: link.relay))
        try await redeem(link, clientID: JoiningBench.clientID, as: thief)
        #expect(
            await accountError { () async throws(AccountError) in try await redeem(link, clientID: JoiningBench.clientID, as: owner) }
                == .linkInvalid
        )
        #expect(try owner.tokens.read() == nil)
        // The issuer cannot know which endpoint was meant, so the login ends.
        try await thief.expire()
        #expect(try await tokenError(JoinLinkAccessTokenProvider(clientID: JoiningBench.clientID), thief) == .linkReused)
    }

    @Test func invalidClientIDIsRejected() async throws {
        let bench = try await JoiningBench()
        let link = try await bench.link()
        let endpoint = try bench.endpoint(relay: link.relay)
        #expect(
            await accountError { () async throws(AccountError) in try await redeem(link, clientID: "player", as: endpoint) }
                == .accessTokenRequestFailed
        )
        // The link is still good.
        try await redeem(link, clientID: JoiningBench.clientID, as: endpoint)
    }

    @Test(arguments: [3_600_000, -3_600_000] as [Int64]) func joinAndRefreshWorkWithAWrongClock(_ offset: Int64) async throws {
        let bench = try await JoiningBench()
        let endpoint = try await bench.joined { EndpointCredentials.systemTime() + offset }
        let first = try endpoint.stored()
        try await endpoint.expire()
        _ = try await JoinLinkAccessTokenProvider(clientID: JoiningBench.clientID).accessToken(for: try endpoint.request())
        #expect(try endpoint.stored().refreshToken != first.refreshToken)
        // An endpoint that the relay knows.
        let member = try await bench.connected().with(now: { EndpointCredentials.systemTime() + offset })
        let invitation = try await makeInvitation(as: member, accessToken: try InvitingTests.token(member))
        #expect(invitation.link.relay == member.relay)
    }

    @Test func joinOverTLSRequiresThePinnedKey() async throws {
        let bench = try await JoiningBench(.ownCertificate)
        let endpoint = try await bench.joined()
        try await endpoint.expire()
        #expect(try await tokenError(JoinLinkAccessTokenProvider(clientID: JoiningBench.clientID), endpoint) == nil)
        #expect(try await ControlChannelClient().identify(endpoint.address, trust: endpoint.trust) == endpoint.relay)

        let link = try await bench.link()
        let other = MachineBench.relay
        let wrong = try bench.endpoint(relay: other)
        #expect(
            await accountError { () async throws(AccountError) in try await redeem(link, clientID: JoiningBench.clientID, as: wrong) }
                == .otherRelay
        )
        // A link whose key was changed on its way.
        let changed = try JoinLink(origin: link.origin, relay: other, invite: link.invite)
        #expect(
            await accountError { () async throws(AccountError) in try await redeem(changed, clientID: JoiningBench.clientID, as: wrong) }
                == .otherRelay
        )
        #expect(try wrong.tokens.read() == nil)
        // The code has not left.
        try await redeem(link, clientID: JoiningBench.clientID, as: try bench.endpoint(relay: link.relay))
        await #expect(throws: RequestFailure.failed(.untrusted(.otherKey(link.relay)))) {
            try await ControlChannelClient().identify(wrong.address, trust: wrong.trust)
        }
    }

    /// Without TLS nothing pins the key, so the relay is asked which one it is.
    @Test func codeIsNotSentToAnotherRelay() async throws {
        let bench = try await JoiningBench()
        let link = try await bench.link()
        let other = MachineBench.relay
        let changed = try JoinLink(origin: link.origin, relay: other, invite: link.invite, plainHTTP: .allowed)
        let wrong = try bench.endpoint(relay: other)
        #expect(
            await accountError { () async throws(AccountError) in try await redeem(changed, clientID: JoiningBench.clientID, as: wrong) }
                == .otherRelay
        )
        #expect(try wrong.tokens.read() == nil)
        // The code has not left.
        try await redeem(link, clientID: JoiningBench.clientID, as: try bench.endpoint(relay: link.relay))
    }

    @Test func stoppedRelayIsReportedAsNetworkNotAvailable() async throws {
        let bench = try await JoiningBench()
        let link = try await bench.link()
        let joined = try await bench.joined()
        let stored = try joined.stored()
        try await joined.expire()
        #expect(try await bench.relayd.stop() == 0)
        let endpoint = try bench.endpoint(relay: link.relay)
        #expect(
            await accountError { () async throws(AccountError) in try await redeem(link, clientID: JoiningBench.clientID, as: endpoint) }
                == .networkNotAvailable
        )
        #expect(try await tokenError(JoinLinkAccessTokenProvider(clientID: JoiningBench.clientID), joined) == .networkNotAvailable)
        #expect(try joined.stored().refreshToken == stored.refreshToken)
        await #expect(throws: RequestFailure.failed(.unreachable("nothing answers there"))) {
            try await ControlChannelClient().identify(joined.address, trust: joined.trust)
        }
    }

    @Test func joinLinkIsNotUsedWhenStorageFails() async throws {
        let bench = try await JoiningBench()
        let link = try await bench.link()
        let endpoint = try bench.endpoint(relay: link.relay)
        let withoutFolder = endpoint.with(tokens: FileTokenStorage(directory: "\(bench.relayd.directory.path)/nowhere"))
        #expect(
            await accountError { () async throws(AccountError) in try await redeem(link, clientID: JoiningBench.clientID, as: withoutFolder)
            }
                == .storageFailed
        )
        try await redeem(link, clientID: JoiningBench.clientID, as: endpoint)
    }

    /// The first answer may have been lost, or the process may have ended before it stored the tokens.
    @Test func sameKeyUsesTheSameLinkAgain() async throws {
        let bench = try await JoiningBench()
        let link = try await bench.link()
        let endpoint = try bench.endpoint(relay: link.relay)
        let lost = endpoint.with(tokens: try bench.tokens("lost"))
        try await redeem(link, clientID: JoiningBench.clientID, as: lost)
        try await redeem(link, clientID: JoiningBench.clientID, as: endpoint)
        #expect(try endpoint.stored().refreshToken == lost.stored().refreshToken)
        try await endpoint.expire()
        #expect(try await tokenError(JoinLinkAccessTokenProvider(clientID: JoiningBench.clientID), endpoint) == nil)
        let other = try bench.endpoint(relay: link.relay)
        #expect(
            await accountError { () async throws(AccountError) in try await redeem(link, clientID: JoiningBench.clientID, as: other) }
                == .linkInvalid
        )
    }

    @Test func unpinnedRelayIsIdentified() async throws {
        let bench = try await JoiningBench()
        let link = try await bench.link()
        let endpoint = try bench.endpoint(relay: link.relay)
        #expect(try await ControlChannelClient().identify(endpoint.address, trust: RelayTrust(relay: nil)) == link.relay)
    }
}
