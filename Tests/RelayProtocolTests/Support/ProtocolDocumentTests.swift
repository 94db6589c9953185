// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@testable import RelayProtocol

/// `docs/protocol.md` says what the code does, as far as a table can be held against it.
@Suite struct ProtocolDocumentTests {
    private let document: String

    init() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../docs/protocol.md").standardizedFileURL
        self.document = String(decoding: try Data(contentsOf: file), as: UTF8.self)
    }

    @Test func everyLimitIsThereWithItsDefault() {
        for limit in Limit.allCases {
            let value = limit.defaultValue
            let text =
                switch limit.unit {
                case .bytes where value.isMultiple(of: 1 << 20): "\(value >> 20) MiB"
                case .bytes where value.isMultiple(of: 1 << 10): "\(value >> 10) KiB"
                case .bytes: "\(value)"
                case .perSecond: "\(value) per second, in bursts ten times that"
                case .seconds: "\(value) s"
                case .count, .characters: value >= 1_000 ? "\(value / 1_000),\(String(value % 1_000 + 1_000).dropFirst())" : "\(value)"
                }
            #expect(document.contains("| `\(limit.rawValue)` | \(text) |"), "\(limit.rawValue)")
        }
    }

    @Test func everyPurposeIsThere() {
        for purpose in Purpose.allCases { #expect(document.contains("| `\(purpose.rawValue)` |"), "\(purpose)") }
    }

    @Test func everySessionErrorIsThereWithItsCode() {
        let errors = (1...UInt16.max).lazy.compactMap { SessionError(rawValue: $0) }
        #expect(errors.count > 10)
        for error in errors { #expect(document.contains("| \(error.rawValue) | `\(error)` |"), "\(error)") }
    }

    @Test func everyControlMessageIsThere() {
        let messages = ControlSamples.fromEndpoint.map(\.content) + ControlSamples.fromRelay.map(\.content)
        let types = Set(messages.map { type(of: $0).type })
        #expect(types.count > 25)
        for type in types { #expect(document.contains("`\(type)`"), "\(type)") }
    }
}
