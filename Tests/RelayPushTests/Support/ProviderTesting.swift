// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import CryptoExtras
import NIOPosix
import RelayProtocol
import Testing

@testable import RelayPush

extension PushChannels {
    /// Channels to a scripted provider.
    static func test(_ server: ScriptedServer, _ time: TestTime, timeout: Duration = .seconds(60)) throws -> PushChannels {
        var channels = PushChannels(group: MultiThreadedEventLoopGroup.singleton) { time.now }
        channels.roots = try server.roots
        channels.timeout = timeout
        let address = try #require(ProviderAddress(server.origin))
        channels.addresses.apns = address
        channels.addresses.apnsSandbox = address
        channels.addresses.fcm = address
        channels.addresses.fcmToken = try #require(ProviderAddress("\(server.origin)/token"))
        channels.addresses.wnsUWPToken = try #require(ProviderAddress("\(server.origin)/accesstoken.srf"))
        channels.addresses.wnsAppSDKToken = address
        channels.addresses.wnsOrigin = server.origin
        return channels
    }
}

extension PushChannel {
    /// Sends until the provider answers. A connection that the provider closed can get one more push before the client notices.
    func sendUntilAnswered(_ wake: Wake, to registration: PushRegistration) async -> PushOutcome {
        while true {
            let outcome = await send(wake, to: registration)
            switch outcome {
            case .failed(_, reason: "the connection to the provider failed"), .failed(_, reason: "the token endpoint cannot be reached"),
                .failed(_, reason: "the push service cannot be reached"):
                continue
            default: return outcome
            }
        }
    }
}

extension PushCredential {
    static func test(apns: ScriptedAPNs, key: String? = nil) -> PushCredential {
        .apns(
            APNsChannel.Credential(
                team: ScriptedAPNs.team,
                keyID: ScriptedAPNs.keyID,
                key: Secret(key ?? apns.key.pemRepresentation),
                topic: ScriptedAPNs.topic
            )
        )
    }

    static func testFCM(key: String? = nil) throws -> PushCredential {
        .fcm(
            FCMChannel.Credential(
                project: ScriptedFCM.project,
                clientEmail: ScriptedFCM.email,
                key: Secret(try key ?? ScriptedFCM.key.get().pemRepresentation)
            )
        )
    }
}

/// So short that a provider which never answers does not hold up the tests.
let shortTimeout = Duration.milliseconds(200)

/// One row of the table of outcomes.
struct Row: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let answer: ScriptedServer.Answer
    let outcome: PushOutcome

    init(_ name: String, _ answer: ScriptedServer.Answer, _ outcome: PushOutcome) {
        self.testDescription = name
        self.answer = answer
        self.outcome = outcome
    }
}
