// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol

/// Formats results as JSON.
package enum JSONText {
    /// The schema version. It grows when a field changes its meaning or is removed; new fields do not change it.
    package static let schema = 1

    private struct Versioned<Content: Encodable>: Encodable {
        enum CodingKeys: String, CodingKey { case schema }

        var content: Content

        func encode(to encoder: any Encoder) throws {
            try content.encode(to: encoder)
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(JSONText.schema, forKey: .schema)
        }
    }

    /// Reads what `line` writes.
    static var decoder: JSONDecoder {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .custom { decoder in
            let text = try decoder.singleValueContainer().decode(String.self)
            let style = Date.ISO8601FormatStyle.iso8601.year().month().day().time(includingFractionalSeconds: true)
            return try style.parse(text.hasSuffix("Z") ? String(text.dropLast()) : text)
        }
        return decoder
    }

    /// One object on one line.
    package static func line(_ result: some Encodable) throws -> String {
        String(decoding: try encoder.encode(Versioned(content: result)), as: UTF8.self)
    }

    private static var encoder: JSONEncoder {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .custom { date, encoder in
            var container = encoder.singleValueContainer()
            try container.encode(date.formatted(.iso8601.year().month().day().time(includingFractionalSeconds: true)) + "Z")
        }
        return encoder
    }

    /// An object without a version.
    static func object(_ fields: some Encodable) throws -> String { String(decoding: try encoder.encode(fields), as: UTF8.self) }

    /// An object without a version, with one more field whose value is already JSON.
    static func object(_ fields: some Encodable, adding field: String, json: String) throws -> String {
        try object(fields).dropLast() + ",\"\(field)\":\(json)}"
    }

    /// The same with one more field whose value is already JSON.
    static func line(_ result: some Encodable, adding field: String, json: String) throws -> String {
        try line(result).dropLast() + ",\"\(field)\":\(json)}"
    }
}
