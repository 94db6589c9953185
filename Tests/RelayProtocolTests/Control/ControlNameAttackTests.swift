// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

/// A name of the relay (a code, a state) may be unknown, but never a text that could do something on a terminal.
@Suite struct ControlNameAttackTests {
    private struct Code: JSONReadable {
        var code: ControlErrorCode
        var step: RelayMessage.CommandStatus.State
        var registration: RelayMessage.NotificationsState.State

        init(json: JSONValue) throws(JSONError) {
            code = try json.member("code")
            step = try json.member("code")
            registration = try json.member("code")
        }
    }

    private func decoded(_ code: String) throws -> String? {
        var json = JSONWriter()
        json.object { $0.member("code", code) }
        return try? Code(json: JSONValue(parsing: json.bytes)).code.rawValue
    }

    /// An app's id is looked up in a database, and a message is shown: no text of a control message has a control character.
    @Test func textHasNoControlCharacters() throws {
        for value in 0...0x2_FFFF as ClosedRange<UInt32> {
            guard let scalar = Unicode.Scalar(value) else { continue }
            let isControl = scalar.properties.generalCategory == .control
            guard isControl || value < 0x180 || value % 97 == 0 else { continue }
            let text = "play\(scalar)er"
            #expect(text.hasControlCharacters == isControl)
            var json = JSONWriter()
            json.object { $0.member("appID", text) }
            let decoded = try? JSONValue(parsing: json.bytes).member("appID") as String
            #expect(decoded.map { Array($0.utf8) } == (isControl ? nil : Array(text.utf8)), "U+\(String(value, radix: 16))")
        }
        let message = #"{"type":"unpublish","ref":1,"appID":"player\u0000x"}"#
        guard case .refused(let failure) = try EndpointMessage.decode(from: controlFrame(message), limits: Limits()) else {
            return #expect(Bool(false), "it is accepted")
        }
        #expect(failure.code == .malformed)
    }

    @Test func nameHasVisibleASCIIOnly() throws {
        for code in ["tokenInvalid", "codeOfALaterVersion", "a", "~!", String(repeating: "x", count: 256)] {
            #expect(try decoded(code) == code)
        }
        for scalar in (0...0x2_FFFF).compactMap(Unicode.Scalar.init) where !(0x21...0x7E).contains(scalar.value) {
            guard try decoded("token\(scalar)Invalid") != nil else { continue }
            Issue.record("U+\(String(scalar.value, radix: 16)) is accepted")
            return
        }
        for code in ["", String(repeating: "x", count: 257)] { #expect(try decoded(code) == nil) }
    }
}
