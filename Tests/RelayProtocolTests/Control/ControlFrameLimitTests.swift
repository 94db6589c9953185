// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import Testing

@testable import RelayProtocol

@Suite struct ControlFrameLimitTests {
    @Test func tooLargeFrameIsRejectedWithoutDecoding() throws {
        var limits = Limits()
        limits[.controlFrameBytes] = 100
        let exact = #"{"type":"watch","ref":1}"# + String(repeating: " ", count: 76)
        #expect(try EndpointMessage.decode(from: controlFrame(exact), limits: limits) == .message(.watch(.init(ref: .first))))
        // The frame is not JSON: its size is checked first.
        let larger = controlFrame(String(repeating: "[", count: 101))
        let exceeded = LimitExceeded(limit: .controlFrameBytes, allowed: 100, requested: 101)
        #expect(throws: ControlFrameError.tooLarge(exceeded)) { try EndpointMessage.decode(from: larger, limits: limits) }
        #expect(throws: ControlFrameError.tooLarge(exceeded)) { try RelayMessage.decode(from: larger, limits: limits) }
        #expect(ControlFrameError.tooLarge(exceeded).closeCode == 1009)
    }

    @Test func frameLimitIsSmallerBeforeWelcome() throws {
        let frame = controlFrame(#"{"type":"watch","ref":1}"# + String(repeating: " ", count: 40 << 10))
        #expect(try EndpointMessage.decode(from: frame, limits: Limits()) == .message(.watch(.init(ref: .first))))
        let exceeded = LimitExceeded(limit: .controlFrameBytesBeforeWelcome, allowed: 32 << 10, requested: frame.readableBytes)
        #expect(throws: ControlFrameError.tooLarge(exceeded)) {
            try EndpointMessage.decode(from: frame, limits: Limits(), isWelcome: false)
        }
    }

    @Test func tooLargeFrameIsNotEncoded() throws {
        var limits = Limits()
        limits[.controlFrameBytes] = 100
        let message = EndpointMessage.commandSend(.init(ref: .first, command: Blob(ControlSamples.bytes(100))))
        #expect(throws: ControlFrameError.self) { try message.encode(limits: limits) }
    }

    @Test func fieldLimitsAreNamedInTheError() throws {
        var limits = Limits()
        limits[.commandBytes] = 10
        limits[.replyBytes] = 10
        limits[.appRegistrationBytes] = 10
        limits[.displayNameCharacters] = 10
        let command = try #require(ControlSamples.command)
        for count in [10, 11, 12, 13, 200] {
            let bytes = ControlSamples.bytes(count)
            let requests: [(Limit, EndpointMessage)] = [
                (.commandBytes, .commandSend(.init(ref: .first, command: Blob(bytes)))),
                (.appRegistrationBytes, .publish(.init(ref: .first, registration: Blob(bytes)))),
                (
                    .replyBytes,
                    .commandResult(
                        .init(ref: .first, sender: ControlSamples.endpoint, id: command, receipt: Blob([1]), reply: Blob(bytes))
                    )
                ),
                (
                    .displayNameCharacters,
                    .notificationsRegister(
                        .init(ref: .first, appID: "a", displayName: String(repeating: "x", count: count), channel: .polling(interval: nil))
                    )
                ),
            ]
            for (limit, request) in requests {
                let received = try EndpointMessage.decode(from: try request.encode(), limits: limits)
                let failure = RelayMessage.Failure(
                    ref: .first,
                    exceeding: LimitExceeded(limit: limit, allowed: 10, requested: count)
                )
                #expect(received == (count == 10 ? .message(request) : .refused(failure)))
                #expect(failure.limit?.error == LimitExceeded(limit: limit, allowed: 10, requested: count))
            }
        }
    }

    @Test func blobSizeIsCheckedBeforeDecoding() throws {
        // The value is not base64. The error names the limit, which shows that the value was not decoded.
        let text = #"{"type":"command.send","ref":1,"command":"\#(String(repeating: "*", count: 360 << 10))"}"#
        let failure = RelayMessage.Failure(
            ref: .first,
            exceeding: LimitExceeded(limit: .commandBytes, allowed: 256 << 10, requested: 270 << 10)
        )
        #expect(try EndpointMessage.decode(from: controlFrame(text), limits: Limits()) == .refused(failure))
    }

    @Test func largestMessagesFitInTheirFrames() throws {
        let command = try #require(ControlSamples.command)
        let record = Introduction(record: Blob(ControlSamples.bytes(8 << 10)), vouchers: Array(repeating: Blob([1]), count: 64))
        let blob = ControlSamples.bytes(256 << 10)
        let messages: [RelayMessage] = [
            .command(.init(command: Blob(blob), sender: record)),
            .commandStatus(.init(id: command, status: .attestedByTarget(Blob(ControlSamples.bytes(4 << 10)), reply: Blob(blob)))),
            .endpointAdded(
                .init(
                    endpoint: ControlSamples.endpoint,
                    introduction: record,
                    registrations: Array(repeating: Blob(ControlSamples.bytes(16 << 10)), count: 8),
                    presence: ControlSamples.presence
                )
            ),
        ]
        for message in messages { #expect(try RelayMessage.decode(from: try message.encode(), limits: Limits()) == message) }
        let send = EndpointMessage.commandSend(.init(ref: .first, command: Blob(blob)))
        #expect(try EndpointMessage.decode(from: try send.encode(), limits: Limits()) == .message(send))
    }

    @Test func introductionsAboveTheLimitsAreRejected() throws {
        var limits = Limits()
        limits[.appRegistrationsBytes] = 10
        limits[.endpointsPerAccount] = 2
        let registrations = Array(repeating: Blob<BlobKinds.AppRegistration>([1, 2, 3, 4]), count: 3)
        let updated = RelayMessage.endpointUpdated(.init(endpoint: ControlSamples.endpoint, registrations: registrations))
        #expect(throws: ControlFrameError.tooLarge(LimitExceeded(limit: .appRegistrationsBytes, allowed: 10, requested: 12))) {
            try RelayMessage.decode(from: try updated.encode(), limits: limits)
        }
        let introduction = Introduction(record: Blob([1]), vouchers: Array(repeating: Blob([1]), count: 3))
        let offer = RelayMessage.command(.init(command: Blob([1]), sender: introduction))
        #expect(throws: ControlFrameError.tooLarge(LimitExceeded(limit: .endpointsPerAccount, allowed: 2, requested: 3))) {
            try RelayMessage.decode(from: try offer.encode(), limits: limits)
        }
    }

    /// The largest messages that each of these sets of limits allows.
    @Test(
        arguments: [
            [:], [.commandBytes: 280_000], [.replyBytes: 380_000], [.appRegistrationsBytes: 270_000], [.endpointsPerAccount: 100],
            [.controlFrameBytes: 40_000, .commandBytes: 1, .replyBytes: 1, .appRegistrationsBytes: 100, .endpointsPerAccount: 16],
            [.controlFrameBytes: 4 << 20, .commandBytes: 2 << 20, .endpointsPerAccount: 900], [.endpointsPerAccount: 330],
        ] as [[Limit: Int]]
    )
    func largestMessagesFitIntoAFrame(values: [Limit: Int]) throws {
        var limits = Limits()
        for (limit, value) in values { limits[limit] = value }
        try limits.checkFrameSizes()
        // No voucher is smaller than 198 bytes.
        let size = min(1 << 10, max(198, Introduction.maximumVoucherBytes / limits[.endpointsPerAccount]))
        let introduction = Introduction(
            record: Blob(ControlSamples.bytes(8 << 10)),
            vouchers: Array(repeating: Blob(ControlSamples.bytes(size)), count: min(limits[.endpointsPerAccount], 330))
        )
        let command = try #require(ControlSamples.command)
        let endpoint = ControlSamples.endpoint
        // No registration is smaller than its signature and the identifiers that it contains.
        let registrations = [Blob<BlobKinds.AppRegistration>](
            repeating: Blob(ControlSamples.bytes(100)),
            count: limits[.appRegistrationsBytes] / 100
        )
        let receipt = Blob<BlobKinds.Receipt>(ControlSamples.bytes(4 << 10))
        let reply = Blob<BlobKinds.Reply>(ControlSamples.bytes(limits[.replyBytes]))
        _ = try RelayMessage.command(.init(command: Blob(ControlSamples.bytes(limits[.commandBytes])), sender: introduction))
            .encode(limits: limits)
        _ = try RelayMessage.commandStatus(.init(id: command, status: .attestedByTarget(receipt, reply: reply))).encode(limits: limits)
        _ = try EndpointMessage.commandResult(
            .init(ref: .first, sender: endpoint, id: command, receipt: receipt, reply: reply)
        ).encode(limits: limits)
        _ = try RelayMessage.endpointAdded(
            .init(
                endpoint: endpoint,
                introduction: introduction,
                registrations: registrations,
                presence: ControlSamples.presence,
                joining: Joining(time: 1_700_000_000_000, invitedBy: endpoint, address: String(repeating: "f", count: 64))
            )
        ).encode(limits: limits)
    }

    @Test(arguments: [Limit.commandBytes, .replyBytes, .appRegistrationBytes, .appRegistrationsBytes])
    func contentBeyondAFrameIsAnError(limit: Limit) throws {
        var limits = Limits()
        limits[limit] = 512 << 10
        let error = try #require(throws: ControlFrameTooSmall.self) { try limits.checkFrameSizes() }
        #expect(error.limit == limit)
        #expect(error.allowed == 512 << 10)
        #expect(error.description.contains("raise controlFrameBytes"))
        limits[.controlFrameBytes] = error.needed - 1
        #expect(throws: ControlFrameTooSmall.self) { try limits.checkFrameSizes() }
        limits[.controlFrameBytes] = error.needed
        try limits.checkFrameSizes()
        // Endpoints do not accept larger frames.
        limits[limit] = 4 << 20
        limits[.controlFrameBytes] = 16 << 20
        let final = try #require(throws: ControlFrameTooSmall.self) { try limits.checkFrameSizes() }
        #expect(final.allowed == 4 << 20)
        #expect(!final.description.contains("raise controlFrameBytes"))
        #expect(final.description.contains("lower \(limit.rawValue)"))
    }

    /// A relay can set any limit. The multiples do not overflow.
    @Test func highestLimitsAreAnError() {
        var limits = Limits()
        for limit in Limit.allCases { limits[limit] = .max }
        #expect(throws: ControlFrameTooSmall.self) { try limits.checkFrameSizes() }
    }

    @Test func rejectedCommandThatIsSentAgainMayHaveRun() throws {
        var limits = Limits()
        limits[.commandBytes] = 1
        for (again, mayHaveRun) in [("", false), (#","again":false"#, false), (#","again":true"#, true), (#","again":1"#, false)] {
            for command in ["AAAA", "A", ""] {
                let frame = controlFrame(#"{"type":"command.send","ref":1,"command":"\#(command)"\#(again)}"#)
                guard case .refused(let failure) = try EndpointMessage.decode(from: frame, limits: limits) else {
                    #expect(command.isEmpty)
                    continue
                }
                #expect(failure.mayHaveRun == mayHaveRun, "\(command) \(again)")
            }
        }
        let other = controlFrame(#"{"type":"publish","ref":1,"again":true}"#)
        guard case .refused(let failure) = try EndpointMessage.decode(from: other, limits: limits) else {
            Issue.record("not rejected")
            return
        }
        #expect(!failure.mayHaveRun)
    }
}
