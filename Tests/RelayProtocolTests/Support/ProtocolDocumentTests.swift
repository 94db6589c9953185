// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@testable import RelayProtocol

/// Compares the tables of `docs/protocol.md` with the code.
@Suite struct ProtocolDocumentTests {
    private let document: String

    init() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../docs/protocol.md").standardizedFileURL
        self.document = String(decoding: try Data(contentsOf: file), as: UTF8.self)
    }

    @Test func everyLimitIsDocumentedWithItsDefault() {
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

    @Test func everyPurposeIsDocumented() {
        for purpose in Purpose.allCases { #expect(document.contains("| `\(purpose.rawValue)` |"), "\(purpose)") }
    }

    @Test func everySessionErrorIsDocumentedWithItsCode() {
        let errors = (1...UInt16.max).lazy.compactMap { SessionError(rawValue: $0) }
        #expect(errors.count > 10)
        for error in errors { #expect(document.contains("| \(error.rawValue) | `\(error)` |"), "\(error)") }
    }

    @Test func everyControlMessageIsDocumented() {
        let messages = ControlSamples.fromEndpoint.map(\.content) + ControlSamples.fromRelay.map(\.content)
        let types = Set(messages.map { type(of: $0).type })
        #expect(types.count > 25)
        for type in types { #expect(document.contains("`\(type)`"), "\(type)") }
    }

    /// The fields of each message are in its table row, and nested fields are anywhere on the page.
    @Test func everyControlMessageFieldIsDocumented() throws {
        let lines = document.split(separator: "\n")
        for vector in try VectorFolder.read(ControlVectors.self, "control").valid {
            guard case .object(let fields) = try JSONDecoder().decode(VectorJSON.self, from: Data(vector.frame.utf8)) else {
                Issue.record("\(vector.name)")
                continue
            }
            let rows = lines.filter { line in
                // The content of a final status has its own table.
                line.hasPrefix("| `\(vector.type)` |")
                    || vector.type == "command.status" && (line.hasPrefix("| `target` |") || line.hasPrefix("| `relay` |"))
            }
            for (name, value) in fields where name != "type" {
                #expect(rows.contains { $0.contains("`\(name)`") }, "\(vector.type).\(name)")
                // The names of limits have their own table, which is checked above.
                guard name != "limits" else { continue }
                for inner in names(in: value) { #expect(document.contains("`\(inner)`"), "\(vector.type).\(name) … \(inner)") }
            }
        }
    }

    /// The fields of each signed statement and of a command's header are in the page's CDDL.
    @Test func everySignedStatementFieldIsDocumented() throws {
        let (identities, commands) = (
            try VectorFolder.read(IdentityVectors.self, "identity"), try VectorFolder.read(CommandVectors.self, "commands")
        )
        let statements = identities.valid.map { ("\($0.kind)", $0.fields) } + commands.commands.map { ("header", $0.header) }
        for (kind, value) in statements + commands.receipts.map({ ("receipt", $0.fields) }) {
            guard case .object(let fields) = value else {
                Issue.record("\(kind)")
                continue
            }
            #expect(fields.count >= 4)
            for name in fields.keys { #expect(document.contains("\"\(name)\": "), "\(kind).\(name)") }
        }
    }

    /// The keys of all objects in a value.
    private func names(in value: VectorJSON) -> [String] {
        switch value {
        case .object(let fields): Array(fields.keys) + fields.values.flatMap(names)
        case .array(let values): values.flatMap(names)
        default: []
        }
    }
}
