// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@Suite struct ValueSetCodingTests {
    enum Color: String, Codable { case red, green }
    enum Shape: Codable, Equatable {
        case circle(radius: Double)
        case named(String)
    }

    struct Everything: Codable, Equatable {
        struct Inner: Codable, Equatable {
            var name: String
            var next: [Inner]?
        }
        var string = "text"
        var flag = true
        var int = Int.min
        var int8 = Int8.min
        var int16 = Int16.max
        var int32 = Int32.min
        var int64 = Int64.max
        var uint = UInt.max
        var uint8 = UInt8.max
        var uint16 = UInt16.max
        var uint32 = UInt32.max
        var uint64 = UInt64.max
        var int128 = Int128(Int64.min)
        var uint128 = UInt128(UInt64.max)
        var double = 0.1
        var float: Float = 1.5
        var date = Date(timeIntervalSince1970: 1_800_000_000.25)
        var uuid = UUID(uuid: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16))
        var data = Data([1, 2, 3])
        var bytes: [UInt8] = [9, 8]
        var url = URL(string: "https://example.org/a?b=c")
        var color = Color.green
        var shapes = [Shape.circle(radius: 2), .named("box")]
        var present: Int? = 3
        var absent: Int?
        var list = ["a", "b"]
        var matrix = [[1, 2], [3]]
        var table = ["x": 1.5, "y": 2]
        var numbered = [1: "one", 2: "two"]
        var inner = Inner(name: "outer", next: [Inner(name: "inner", next: nil)])
    }

    @Test func everyKindOfPropertyRoundTrips() throws {
        let value = Everything()
        let set = try ValueSetEncoder().encode(value)
        #expect(set["date"] == .date(value.date))
        #expect(set["data"] == .data([1, 2, 3]))
        #expect(set["bytes"] == .data([9, 8]))
        #expect(set["uuid"] == .uuid(value.uuid))
        #expect(set["url"] == "https://example.org/a?b=c")
        #expect(set["uint64"] == .uint(.max))
        #expect(set["color"] == "green")
        #expect(set["numbered"] == ["1": "one", "2": "two"])
        #expect(set["absent"] == nil)
        let decoded = try ValueSetDecoder().decode(Everything.self, from: ValueSet(decodingCBOROf: set))
        #expect(decoded == value)
    }

    private struct Holder<T: Codable>: Codable { var a: T }

    private func decode<T: Codable>(_ type: T.Type, from value: ValueSet.Value) throws -> T {
        try ValueSetDecoder().decode(Holder<T>.self, from: ["a": value]).a
    }

    @Test func integersOutOfRangeAreErrorsWithTheirPath() throws {
        #expect(throws: DecodingError.self) { try decode(Int8.self, from: 128) }
        #expect(throws: DecodingError.self) { try decode(UInt8.self, from: -1) }
        #expect(throws: DecodingError.self) { try decode(Int16.self, from: 32_768) }
        #expect(throws: DecodingError.self) { try decode(UInt16.self, from: 65_536) }
        #expect(throws: DecodingError.self) { try decode(Int32.self, from: .int(1 << 31)) }
        #expect(throws: DecodingError.self) { try decode(UInt32.self, from: .int(1 << 32)) }
        #expect(throws: DecodingError.self) { try decode(Int64.self, from: .uint(1 << 63)) }
        #expect(throws: DecodingError.self) { try decode(UInt64.self, from: -1) }
        #expect(try decode(UInt64.self, from: .uint(.max)) == .max)
        #expect(try decode(Int8.self, from: -128) == -128)
        #expect(throws: EncodingError.self) { try ValueSetEncoder().encode(["a": Int128.max]) }
        #expect(throws: EncodingError.self) { try ValueSetEncoder().encode(["a": Int128(Int64.min) - 1]) }
        do {
            _ = try ValueSetDecoder().decode([String: [Holder<Int8>]].self, from: ["x": [["a": 1], ["a": 999]]])
            Issue.record("999 was decoded as Int8")
        } catch DecodingError.dataCorrupted(let context) {
            #expect(context.codingPath.map(\.stringValue) == ["x", "1", "a"])
        }
    }

    @Test func wrongKindsAndMissingKeysAreErrors() throws {
        #expect(throws: DecodingError.self) { try decode(String.self, from: 1) }
        #expect(throws: DecodingError.self) { try decode(Int.self, from: 1.0) }
        #expect(throws: DecodingError.self) { try decode(Date.self, from: 5) }
        #expect(throws: DecodingError.self) { try decode(UUID.self, from: "x") }
        #expect(throws: DecodingError.self) { try decode(Data.self, from: "x") }
        #expect(throws: DecodingError.self) { try decode([Int].self, from: ["b": 1]) }
        #expect(throws: DecodingError.self) { try decode([String: Int].self, from: [1]) }
        #expect(throws: DecodingError.self) { try decode(Color.self, from: "blue") }
        #expect(throws: DecodingError.self) { try decode(Float.self, from: 1e300) }
        #expect(throws: DecodingError.self) { try ValueSetDecoder().decode(Holder<Int>.self, from: [:]) }
        #expect(try decode(Double.self, from: 3) == 3)
        #expect(try decode(Float.self, from: .double(.infinity)) == .infinity)
        #expect(try decode(Int?.self, from: 4) == 4)
    }

    @Test func unsupportedValuesAreErrors() {
        #expect(throws: EncodingError.self) { try ValueSetEncoder().encode(5) }
        #expect(throws: EncodingError.self) { try ValueSetEncoder().encode([1, 2]) }
        #expect(throws: EncodingError.self) { try ValueSetEncoder().encode(["a": [1, nil]]) }
        #expect(throws: EncodingError.self) { try ValueSetEncoder().encode(Mixed()) }
    }

    private struct Mixed: Encodable {
        func encode(to encoder: any Encoder) throws {
            var keyed = encoder.container(keyedBy: Key.self)
            var list = keyed.nestedUnkeyedContainer(forKey: .a)
            try list.encode(1)
            try list.encode("x")
        }
        enum Key: String, CodingKey { case a }
    }

    private class Animal: Codable {
        var legs = 4
        init() {}
    }

    private final class Dog: Animal {
        var name = "Rex"
        override init() { super.init() }
        enum Key: String, CodingKey { case name }
        required init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: Key.self)
            try super.init(from: try container.superDecoder())
            name = try container.decode(String.self, forKey: .name)
        }
        override func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Key.self)
            try container.encode(name, forKey: .name)
            try super.encode(to: container.superEncoder())
        }
    }

    @Test func classesWithASuperclassRoundTrip() throws {
        let dog = Dog()
        dog.name = "Bo"
        dog.legs = 3
        let set = try ValueSetEncoder().encode(dog)
        #expect(set == ["name": "Bo", "super": ["legs": 3]])
        let decoded = try ValueSetDecoder().decode(Dog.self, from: set)
        #expect(decoded.name == "Bo")
        #expect(decoded.legs == 3)
    }
}

extension ValueSet {
    /// Decodes the CBOR of a message, as after a transfer.
    init(decodingCBOROf set: ValueSet) throws {
        try self.init(decoding: try set.encodedBytes())
    }
}
