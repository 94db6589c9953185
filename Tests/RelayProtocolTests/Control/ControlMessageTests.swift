// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import Testing

@testable import RelayProtocol

@Suite struct ControlMessageTests {
    @Test func everyEndpointMessageRoundTrips() throws {
        var types: Set<String> = []
        for message in ControlSamples.fromEndpoint {
            let frame = try message.encode()
            #expect(try EndpointMessage.decode(from: frame, limits: Limits()) == .message(message), "\(controlText(frame))")
            types.insert(type(of: message.content).type)
        }
        #expect(types.count == 21)
    }

    @Test func everyRelayMessageRoundTrips() throws {
        var types: Set<String> = []
        for message in ControlSamples.fromRelay {
            let frame = try message.encode()
            #expect(try RelayMessage.decode(from: frame, limits: Limits()) == message, "\(controlText(frame))")
            types.insert(type(of: message.content).type)
        }
        #expect(types.count == 23)
    }

    @Test func encodedFieldsMatchTheDocumentation() throws {
        let id = ControlSamples.endpoint.description
        let command = "018f0000-0000-7000-8000-000000000001"
        func json(_ message: EndpointMessage) throws -> String { controlText(try message.encode()) }
        func json(_ message: RelayMessage) throws -> String { controlText(try message.encode()) }
        let commandID = try #require(ControlSamples.command)
        let tunnel = try #require(ControlSamples.tunnel)

        #expect(try json(EndpointMessage.watch(.init(ref: .first))) == #"{"type":"watch","ref":1}"#)
        #expect(
            try json(EndpointMessage.commandReceived(.init(sender: ControlSamples.endpoint, id: commandID)))
                == #"{"type":"command.received","sender":"\#(id)","id":"\#(command)"}"#
        )
        #expect(
            try json(RelayMessage.ok(.init(ref: .first, result: .init(tunnel: tunnel, isWaking: true))))
                == #"{"type":"ok","ref":1,"result":{"tunnel":"00112233445566778899aabbccddeeff","waking":true}}"#
        )
        #expect(
            try json(RelayMessage.failure(.init(ref: .first, code: .clockSkew, message: "m", time: 12)))
                == #"{"type":"error","ref":1,"code":"clockSkew","message":"m","time":12}"#
        )
        #expect(
            try json(RelayMessage.commandStatus(.init(id: commandID, status: .attestedByRelay(.indeterminate(.targetLost)))))
                == #"{"type":"command.status","id":"\#(command)","state":"final","attestedBy":"relay","outcome":"indeterminate","reason":"targetLost"}"#
        )
        #expect(
            try json(RelayMessage.endpointUpdated(.init(endpoint: ControlSamples.endpoint, presence: ControlSamples.presence)))
                == #"{"type":"endpoint.updated","endpoint":"\#(id)","presence":{"state":"unavailable","reason":"suspended","since":1700000000000,"expectedWithin":30000}}"#
        )
        #expect(
            try json(
                EndpointMessage.notificationsRegister(
                    .init(ref: .first, appID: "a", displayName: "A", channel: .apns(token: Secret("t"), environment: .sandbox))
                )
            )
                == #"{"type":"notifications.register","ref":1,"appID":"a","displayName":"A","channel":{"type":"apns","token":"t","environment":"sandbox"}}"#
        )
    }

    @Test func againAndMayHaveRunAreEncodedOnlyIfTrue() throws {
        let again = EndpointMessage.commandSend(.init(ref: .first, command: Blob([1]), again: true))
        #expect(controlText(try again.encode()) == #"{"type":"command.send","ref":1,"command":"AQ==","again":true}"#)
        let once = EndpointMessage.commandSend(.init(ref: .first, command: Blob([1])))
        #expect(controlText(try once.encode()) == #"{"type":"command.send","ref":1,"command":"AQ=="}"#)
        let certain = RelayMessage.failure(.init(ref: .first, code: .targetUnknown, message: "m"))
        #expect(controlText(try certain.encode()) == #"{"type":"error","ref":1,"code":"targetUnknown","message":"m"}"#)
        let doubtful = RelayMessage.failure(.init(ref: .first, code: .idConflict, message: "m", mayHaveRun: true))
        #expect(controlText(try doubtful.encode()) == #"{"type":"error","ref":1,"code":"idConflict","message":"m","mayHaveRun":true}"#)
    }

    @Test func everyCommandRejectionHasACode() {
        let exceeded = { LimitExceeded(limit: $0, allowed: 1, requested: 2) }
        let reasons: [(CommandRejection.Reason, ControlErrorCode)] = [
            (.idConflict, .idConflict), (.clockSkew, .clockSkew), (.numberPassed, .numberPassed), (.expired, .expired),
            (.livesTooLong, .livesTooLong), (.targetUnknown, .targetUnknown), (.limit(exceeded(.commandBytes)), .commandTooLarge),
            (.limit(exceeded(.mailboxCommands)), .mailboxFull), (.limit(exceeded(.mailboxBytes)), .mailboxFull),
        ]
        for (reason, code) in reasons {
            #expect(ControlErrorCode(rawValue: CommandRejection(reason, mayHaveRun: false).code) == code)
        }
    }

    @Test func unknownFieldsAreIgnoredAndUnknownNamesKept() throws {
        let watch = try EndpointMessage.decode(from: controlFrame(#"{"type":"watch","ref":3,"news":{"a":[1,{}]}}"#), limits: Limits())
        #expect(watch == .message(.watch(.init(ref: ControlSamples.ref(3)))))

        let failure = try RelayMessage.decode(
            from: controlFrame(#"{"type":"error","ref":3,"code":"brandNew","message":""}"#),
            limits: Limits()
        )
        #expect(failure == .failure(.init(ref: ControlSamples.ref(3), code: ControlErrorCode(rawValue: "brandNew"), message: "")))

        let presence = #"{"type":"endpoint.updated","endpoint":"\#(ControlSamples.endpoint)","presence":{"state":"x","reason":"y"}}"#
        let updated = try RelayMessage.decode(from: controlFrame(presence), limits: Limits())
        let expected = Presence(.unknown, Presence.Reason(rawValue: "y"))
        #expect(updated == .endpointUpdated(.init(endpoint: ControlSamples.endpoint, presence: expected)))
    }

    @Test func requestOfUnknownTypeIsRejected() throws {
        let received = try EndpointMessage.decode(from: controlFrame(#"{"type":"sing","ref":12}"#), limits: Limits())
        guard case .refused(let failure) = received else {
            Issue.record("\(received)")
            return
        }
        #expect(failure.ref == ControlSamples.ref(12))
        #expect(failure.code == .unknownType)
    }

    @Test func unknownMessageWithoutRefIsIgnored() throws {
        #expect(try EndpointMessage.decode(from: controlFrame(#"{"type":"sing"}"#), limits: Limits()) == .ignored)
        #expect(try EndpointMessage.decode(from: controlFrame(#"{"type":"sing","ref":-1}"#), limits: Limits()) == .ignored)
        #expect(try RelayMessage.decode(from: controlFrame(#"{"type":"sing","ref":12}"#), limits: Limits()) == nil)
    }

    @Test(arguments: [
        #"{"type":"unpublish","ref":5}"#, #"{"type":"unpublish","ref":5,"appID":null}"#, #"{"type":"unpublish","ref":5,"appID":7}"#,
        #"{"type":"command.send","ref":5,"command":"no base64"}"#, #"{"type":"command.send","ref":5,"command":"AA"}"#,
        #"{"type":"endpoint.revoke","ref":5,"endpoint":"short"}"#, #"{"type":"leaving","ref":5,"reason":"bored"}"#,
        #"{"type":"command.cancel","ref":5,"id":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"}"#,
        #"{"type":"tunnel.open","ref":5,"target":"\#(ControlSamples.endpoint)","timeout":-1}"#,
        #"{"type":"tunnel.open","ref":5,"target":"\#(ControlSamples.endpoint)","timeout":9007199254740992}"#,
        #"{"type":"endpoint.update","ref":5,"record":""}"#,
        #"{"type":"notifications.register","ref":5,"appID":"a","displayName":"a\u202eb","channel":{"type":"polling"}}"#,
        #"{"type":"notifications.register","ref":5,"appID":"a","displayName":"b","channel":{"type":"0123456789012345678901234567890123"}}"#,
        #"{"type":"notifications.register","ref":5,"appID":"a","displayName":"b","channel":{"type":"fcm","token":""}}"#,
    ])
    func aRequestWithAWrongFieldCanBeAnswered(text: String) throws {
        let received = try EndpointMessage.decode(from: controlFrame(text), limits: Limits())
        guard case .refused(let failure) = received else {
            Issue.record("\(received)")
            return
        }
        #expect(failure.ref == ControlSamples.ref(5))
        #expect(failure.code == .malformed)
    }

    @Test func wrongFieldOfARegistrationIsNamed() throws {
        func failure(_ appID: String, _ name: String) throws -> RelayMessage.Failure? {
            let text =
                #"{"type":"notifications.register","ref":5,"appID":"\#(appID)","displayName":"\#(name)","channel":{"type":"polling"}}"#
            if case .refused(let failure) = try EndpointMessage.decode(from: controlFrame(text), limits: Limits()) { return failure }
            return nil
        }
        #expect(try failure("", "Player")?.message == "appID has no valid value")
        #expect(try failure("a\u{202E}b", "Player")?.message == "appID has no valid value")
        #expect(try failure("player", "a\u{202E}b")?.message == "displayName has no valid value")
        #expect(try failure("player", String(repeating: "a", count: 65))?.code == .limitExceeded)
        #expect(try failure("player", "") == nil)
    }

    @Test(arguments: [0, -1, 9_007_199_254_740_992, Int64.max])
    func refIsPositiveAndBelowTwoToThe53(number: Int64) {
        #expect(RequestRef(number) == nil)
        #expect(throws: ControlFrameError.malformed("ref has no valid value")) {
            try EndpointMessage.decode(from: controlFrame(#"{"type":"watch","ref":\#(number)}"#), limits: Limits())
        }
    }

    @Test func refsWrapAround() {
        #expect(RequestRef.first.next == RequestRef(2))
        #expect(RequestRef(Milliseconds.end - 1)?.next == .first)
    }

    @Test func relayCannotAttestTargetOutcomes() {
        for outcome in [#""succeeded""#, #""declined""#, #""failed","reason":"x""#, #""indeterminate","reason":"timedOut""#] {
            let text =
                #"{"type":"command.status","id":"018f0000-0000-7000-8000-000000000001","state":"final","attestedBy":"relay","outcome":\#(outcome)}"#
            #expect(throws: ControlFrameError.self) { try RelayMessage.decode(from: controlFrame(text), limits: Limits()) }
        }
    }

    @Test func secretsAreNotPrinted() throws {
        let canary = "canary-9f8e7d"
        let token = Secret(Blob<BlobKinds.TunnelToken>(Array(canary.utf8)))
        let messages: [Any] = [
            Secret(canary), [Secret(canary)], EndpointMessage.authRefresh(.init(ref: .first, token: Secret(canary))),
            EndpointMessage.notificationsRegister(
                .init(ref: .first, appID: "a", displayName: "b", channel: .fcm(token: Secret(canary)))
            ),
            TunnelEntrance(tunnel: try #require(ControlSamples.tunnel), token: token, urls: []),
        ]
        let numbers = Array(canary.utf8).map(String.init).joined(separator: ", ")
        for message in messages {
            var dumped = ""
            dump(message, to: &dumped)
            for text in ["\(message)", String(reflecting: message), dumped] {
                #expect(!text.contains(canary) && !text.contains(numbers), "\(type(of: message))")
            }
        }
    }
}
