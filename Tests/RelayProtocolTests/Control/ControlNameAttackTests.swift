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
