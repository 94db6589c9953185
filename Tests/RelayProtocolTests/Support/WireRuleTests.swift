// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

/// Wire rules that other implementations rely on: the passage of the document and the test of each.
@Suite struct WireRuleTests {
    struct Rule: CustomTestStringConvertible {
        let page: String
        /// The words of the document.
        let words: String
        let tests: [(file: String, name: String)]

        var testDescription: String { words }
    }

    static let rules: [Rule] = [
        Rule(
            page: "protocol.md",
            words: "a signature made anew over the same body included",
            tests: [("RelayServerTests/Core/ConnectingTests", "olderRecordIsRejected")]
        ),
        Rule(
            page: "protocol.md",
            words: "the relay refuses it with `livesTooLong`",
            tests: [
                ("RelayProtocolTests/Commands/SealedCommandTests", "tooLongLivedCommandIsDecodedAndRejected"),
                ("RelayServerTests/Core/CommandFlowTests", "commandWithATooLongLifeIsRejected"),
            ]
        ),
        Rule(
            page: "protocol.md",
            words: "an `open` without `package` fits none",
            tests: [
                ("RelayProtocolTests/Sessions/SessionFrameTests", "openWithoutAPackageNamesNoApp"),
                ("DeviceRelayTests/Sessions/SessionFailureTests", "openWithoutAPackageIsRefused"),
            ]
        ),
        Rule(
            page: "protocol.md",
            words: "The side that asks acts on its `deadline`",
            tests: [("DeviceRelayTests/Sessions/SessionLifeTests", "timeoutCancelsTheHandler")]
        ),
        Rule(
            page: "protocol.md",
            words: "A frame that is skipped may come at any time",
            tests: [("RelayProtocolTests/Sessions/SessionStateMachineTests", "skippedFrameBeforeSettingsIsIgnored")]
        ),
        Rule(
            page: "protocol.md",
            words: "Bytes behind a map end the session with `invalidMetadata`",
            tests: [
                ("RelayProtocolTests/Sessions/SessionFrameTests", "bodiesAreChecked"),
                ("DeviceRelayTests/Sessions/SessionFailureTests", "invalidMessageEndsItsRequestOnly"),
            ]
        ),
        Rule(
            page: "protocol.md",
            words: "puts `unknown` there, which is no account of any relay",
            tests: [("RelayServerTests/Core/ConnectingTests", "rejectionOfAWrongAccountNamesTheRightOne")]
        ),
        Rule(
            page: "protocol.md",
            words: "A device without any confirmed endpoint can be addressed like another",
            tests: [("RelayProtocolTests/Directory/TargetResolutionTests", "unconfirmedDeviceCanBeAddressed")]
        ),
        Rule(
            page: "protocol.md",
            words: "the outcome stands and is acknowledged",
            tests: [("RelayProtocolTests/Commands/SealedCommandTests", "unreadableReplyKeepsTheOutcome")]
        ),
        Rule(
            page: "protocol.md",
            words: "HPKE's `info` is the purpose's text alone, without the zero byte",
            tests: [
                ("RelayProtocolTests/Vectors/VectorTests", "commandsRoundTrip"),
                ("RelayProtocolTests/Vectors/VectorTests", "invitationProofsAreVerified"),
            ]
        ),
        Rule(
            page: "protocol.md",
            words: "The ceiling is the time since the channel was lost",
            tests: [("DeviceRelayTests/Transports/EndpointChannelStateMachineTests", "reconnectDelayIsBoundedByTheAbsence")]
        ),
        Rule(
            page: "protocol.md",
            words: "A channel that lasted for less than 30 s does not end the absence",
            tests: [("DeviceRelayTests/Transports/EndpointChannelStateMachineTests", "backoffIsResetOnlyByALastingConnection")]
        ),
        Rule(
            page: "protocol.md",
            words: "the next attempt follows its end within 500 ms",
            tests: [
                ("DeviceRelayTests/Transports/EndpointChannelStateMachineTests", "restartDelayOfTheRelayIsRespected"),
                ("DeviceRelayTests/Transports/EndpointChannelStateMachineTests", "retryAfterIsRespectedUpToAnHour"),
            ]
        ),
        Rule(
            page: "protocol.md",
            words: "the fingerprint words of the endpoint with the smaller id, a space, and the fingerprint words of the other one",
            tests: [
                ("RelayProtocolTests/Vectors/VectorTests", "fingerprintsAndCodesHaveTheseWords"),
                ("RelayProtocolTests/Identity/FingerprintAttackTests", "codesOfAManInTheMiddleDiffer"),
            ]
        ),
        Rule(
            page: "issuer.md",
            words: "Fields: `token`, a refresh token; `client_id`",
            tests: [("RelayIssuerTests/IssuerRouteTests", "anEndpointRefreshesAndRevokes")]
        ),
        Rule(
            page: "relay.md",
            words: "A head beyond them is answered with 400",
            tests: [("RelayServerTests/Hostile/BoundaryTests", "headersOfHTTPRequestsAreLimited")]
        ),
        Rule(
            page: "agent.md",
            words: "An *entry* is a set of `name` (text)",
            tests: [("RelayCommandTests/FilesFormTests", "answersHaveTheDocumentedTypes")]
        ),
    ]

    @Test(arguments: rules) func ruleIsDocumentedAndTested(_ rule: Rule) throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../..").standardizedFileURL
        func words(_ path: String) throws -> String {
            try String(contentsOf: root.appending(path: path), encoding: .utf8).split(whereSeparator: \.isWhitespace).joined(separator: " ")
        }
        #expect(try words("docs/\(rule.page)").contains(rule.words))
        for test in rule.tests {
            #expect(try words("Tests/\(test.file).swift").contains("func \(test.name)("), "\(test.file) has no \(test.name)")
        }
    }
}
