// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

@testable import RelayProtocol

/// A part of a vector file that other implementations read as plain JSON: a value set in its JSON form. It contains no
/// doubles, because JSON writers format them differently; `values.json` has them as texts.
indirect enum VectorJSON: Codable, Hashable {
    case string(String)
    case integer(Int64)
    case bool(Bool)
    case array([VectorJSON])
    case object([String: VectorJSON])

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Int64.self) {
            self = .integer(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([VectorJSON].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: VectorJSON].self))
        }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .string(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .bool(let value): try container.encode(value)
        case .array(let value): try container.encode(value)
        case .object(let value): try container.encode(value)
        }
    }

    init(_ set: ValueSet) throws {
        self = try JSONDecoder().decode(VectorJSON.self, from: Data(try set.json().utf8))
    }

    /// The value set of a payload.
    init(encoding payload: some Encodable) throws {
        try self.init(try ValueSetEncoder().encode(payload))
    }

    var valueSet: ValueSet {
        get throws { try ValueSet(json: try JSONEncoder().encode(self)) }
    }

    /// Whether all content of this value is in the other one. The other value may have more limits.
    func isPart(of other: VectorJSON, extra: Set<String> = []) -> Bool {
        switch (self, other) {
        case (.object(let mine), .object(let theirs)):
            mine.allSatisfy { key, value in theirs[key].map { value.isPart(of: $0, extra: extra) } ?? false }
                && (mine.count == theirs.count || !extra.isDisjoint(with: theirs.keys))
        default: self == other
        }
    }
}
