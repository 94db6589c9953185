// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import RelayTesting
import Testing

@testable import RelayProtocol

/// What reads and writes JSON, beside Foundation's.
@Suite struct JSONValueTests {
    /// Everything that a frame may hold.
    private struct Anything: JSONObjectCodable, Codable, Equatable {
        var text: String?
        var number: Int?
        var flag: Bool?
        var list: [Anything]?
        var names: Names?
        var nested: [[String]]?

        init(text: String?, number: Int?, flag: Bool?, list: [Anything]?, names: Names?, nested: [[String]]?) {
            (self.text, self.number, self.flag, self.list, self.names, self.nested) = (text, number, flag, list, names, nested)
        }

        init(json: JSONValue) throws(JSONError) {
            self.text = try json.optional("text")
            self.number = try json.optional("number")
            self.flag = try json.optional("flag")
            self.list = try json.optional("list")
            self.names = try json.optional("names")
            self.nested = try json.optional("nested")
        }

        func writeMembers(to json: inout JSONWriter) {
            json.member("text", text)
            json.member("number", number)
            json.member("flag", flag)
            json.member("list", list)
            json.member("names", names)
            json.member("nested", nested)
        }
    }

    private struct Names: JSONObjectCodable, Codable, Equatable {
        var names: [String: Int]

        init(_ names: [String: Int]) { self.names = names }

        init(json: JSONValue) throws(JSONError) {
            self.names = [:]
            for (name, value) in try json.object() where names[name] == nil { names[name] = try Int(json: value) }
        }

        func writeMembers(to json: inout JSONWriter) {
            for (name, value) in names { json.member(name, value) }
        }

        init(from decoder: any Decoder) throws { self.names = try [String: Int](from: decoder) }
        func encode(to encoder: any Encoder) throws { try names.encode(to: encoder) }
    }

    private func mine(_ json: String) throws -> Anything { try Anything(json: JSONValue(parsing: Array(json.utf8))) }
    private func written(_ value: Anything) -> String {
        var json = JSONWriter()
        value.write(to: &json)
        return String(decoding: json.bytes, as: UTF8.self)
    }
    private func foundations(_ json: String) throws -> Anything { try JSONDecoder().decode(Anything.self, from: Data(json.utf8)) }

    private static let texts = [
        "", "a", "\"", "\\", "/", "\u{1}\u{8}\u{9}\u{A}\u{C}\u{D}\u{1F}\u{7F}", "\u{2028}", "ä€🦀", "e\u{301}", "\u{FFFF}", "🏳️‍🌈",
    ]

    private func random(_ random: inout SeededGenerator, depth: Int = 0) -> Anything {
        func maybe<T>(_ make: (inout SeededGenerator) -> T) -> T? { Bool.random(using: &random) ? make(&random) : nil }
        return Anything(
            text: maybe { Self.texts.filter { !$0.hasControlCharacters }.randomElement(using: &$0) ?? "" },
            number: maybe { [.min, -1, 0, 7, 1 << 53, .max].randomElement(using: &$0) ?? 0 },
            flag: maybe { .random(using: &$0) },
            list: depth > 2
                ? nil : maybe { random in (0..<Int.random(in: 0...3, using: &random)).map { _ in self.random(&random, depth: depth + 1) } },
            names: maybe { random in
                let names = (0..<Int.random(in: 0...40, using: &random)).map { ("\(Self.texts[$0 % 11])\($0)", $0) }
                return Names(Dictionary(names) { first, _ in first })
            },
            nested: maybe { _ in [[], ["", "x"]] }
        )
    }

    @Test(arguments: 1...5 as ClosedRange<UInt64>) func foundationAndOwnCodingAgree(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<200 {
            let value = random(&generator)
            let own = written(value)
            let pretty = JSONEncoder()
            pretty.outputFormatting = .prettyPrinted
            #expect(try foundations(own) == value)
            #expect(try mine(own) == value)
            #expect(try mine(String(decoding: try pretty.encode(value), as: UTF8.self)) == value)
        }
    }

    @Test func controlCharacterInATextIsRefused() throws {
        for scalar in (0...0x9F).compactMap(Unicode.Scalar.init) where scalar.properties.generalCategory == .control {
            let escaped = "\\u00" + (scalar.value < 16 ? "0" : "") + String(scalar.value, radix: 16)
            #expect(throws: JSONError.self, "\(scalar.value)") { try mine("{\"text\":\"a\(escaped)\"}") }
        }
        #expect(try mine("{\"text\":\"\\u00a0\"}").text == "\u{A0}")
    }

    /// Damaged at random: JSON that is accepted, Foundation accepts too, with equal values. Unread values are not checked, nor a comma too
    /// many. Equal keys are left out: which counts is not defined.
    @Test(arguments: 1...5 as ClosedRange<UInt64>) func acceptedJSONIsAcceptedByFoundation(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let fragments = [
            "null", "1.0", "1e2", "-0", "01", "1.", ".5", "+1", "1e400", "9223372036854775808", "true", "tru", "\"\\u00e9\"",
            "\"\\ud83e\\udd80\"",
            "\"\\ud83e\"", "\"\\x\"", "[", "]", "{", "}", ",", ":", " ", "\n", "\"", "\\", "[[\"a\"]]", "{\"text\":null}",
        ]
        var taken = 0
        for _ in 0..<800 {
            var text = Array(written(random(&generator)).unicodeScalars)
            for _ in 0..<Int.random(in: 0...2, using: &generator) {
                let place = Int.random(in: 0...text.count, using: &generator)
                let end = min(text.count, place + Int.random(in: 0...4, using: &generator))
                text.replaceSubrange(place..<end, with: Array((fragments.randomElement(using: &generator) ?? "").unicodeScalars))
            }
            let json = String(String.UnicodeScalarView(text))
            let (one, other) = (try? mine(json), try? foundations(json))
            guard let one, !hasEqualKeys(json) else { continue }
            #expect(one == other, "\(json)")
            taken += 1
        }
        #expect(taken > 100)
    }

    private func hasEqualKeys(_ json: String) -> Bool {
        guard let index = try? JSONIndex(Array(json.utf8)) else { return false }
        return index.nodes.indices.contains { object in
            guard index.nodes[object].kind == .object else { return false }
            var (keys, key): ([String], Int) = ([], object + 1)
            while key < index.nodes[object].next {
                keys.append(index.text(index.nodes[key]))
                key = index.nodes[key + 1].next
            }
            return Set(keys).count < keys.count
        }
    }

    @Test func firstOfEqualKeysIsUsed() throws {
        let many = (0..<40).map { #""k\#($0)":\#($0),"# }.joined()
        #expect(try mine(#"{"number":1,"number":2}"#).number == 1)
        #expect(try mine("{\(many)" + #""number":1,"number":2}"#).number == 1)
        #expect(try mine(#"{"\u006eumber":3}"#).number == 3)
    }

    @Test func nestingIsBounded() {
        func nested(_ levels: Int) -> [UInt8] {
            Array((String(repeating: "[", count: levels) + String(repeating: "]", count: levels)).utf8)
        }
        #expect(throws: Never.self) { try JSONIndex(nested(JSONIndex.maximumLevels)) }
        #expect(throws: JSONSyntaxError.self) { try JSONIndex(nested(JSONIndex.maximumLevels + 1)) }
    }

    /// In one text: no space, no escape that is not needed, nothing that Foundation would write otherwise.
    @Test func encodedSizeMatchesFoundation() throws {
        let frames = try ControlSamples.fromRelay.map { try $0.encode() } + ControlSamples.fromEndpoint.map { try $0.encode() }
        for frame in frames {
            let object = try JSONSerialization.jsonObject(with: Data(frame.readableBytesView))
            let written = try JSONSerialization.data(withJSONObject: object, options: .withoutEscapingSlashes)
            #expect(written.count == frame.readableBytes, "\(controlText(frame))")
        }
    }

    /// Errors name the path of the wrong member.
    @Test(arguments: [
        (#"{"number":"x"}"#, "number has the wrong type"), (#"{"flag":1}"#, "flag has the wrong type"),
        (#"{"list":[{},{"list":[{"number":1.5}]}]}"#, "1.list.0.number has no valid value"),
        (#"{"nested":[["a"],["b",null]]}"#, "nested.1.1 is null"), (#"{"names":{"a":1,"b c":true}}"#, "names.… has the wrong type"),
        (#"{"a":[[],{"x":1}],"list":{}}"#, "list has the wrong type"), (#"{"number":9223372036854775808}"#, "number has no valid value"),
    ])
    func errorsNameTheirPath(json: String, reason: String) {
        #expect(throws: JSONError.malformed(reason)) { try Anything(json: JSONValue(parsing: Array(json.utf8))) }
    }

    @Test func wholeNumbersInAnyNotationAreIntegers() throws {
        for (text, number) in [("7.0", 7), ("1e2", 100), ("-0", 0), ("-12", -12), ("9007199254740991.0", 9_007_199_254_740_991)] {
            #expect(try mine(#"{"number":\#(text)}"#).number == number)
        }
        for text in ["7.5", "1e400", "9007199254740993.0", "1e30"] {
            #expect(throws: JSONError.malformed("number has no valid value")) { try mine(#"{"number":\#(text)}"#) }
        }
    }
}
