// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

@Suite struct ValueSetTests {
    @Test func literalsAndAccessorsCoverEachKind() throws {
        let moment = Date(timeIntervalSince1970: 1_800_000_000)
        let id = UUID()
        let message: ValueSet = [
            "Type": "list", "Recursive": true, "Count": 3, "Ratio": 0.5, "Since": .date(moment), "Id": .uuid(id), "Data": .data([1, 2]),
            "Names": ["a", "b"], "Nested": ["Deep": ["Deeper": 1]], "Big": .uint(.max),
        ]
        #expect(message.count == 10)
        #expect(message["Type"]?.string == "list")
        #expect(message["Recursive"]?.bool == true)
        #expect(message["Count"]?.int == 3)
        #expect(message["Count"]?.double == 3)
        #expect(message["Ratio"]?.double == 0.5)
        #expect(message["Since"]?.date == moment)
        #expect(message["Id"]?.uuid == id)
        #expect(message["Data"]?.data == [1, 2])
        #expect(message["Names"]?.array?.map(\.string) == ["a", "b"])
        #expect(message["Nested"]?["Deep"]?["Deeper"]?.int64 == 1)
        #expect(message["Big"]?.uint64 == .max)
        #expect(message["Big"]?.int == nil)
        #expect(message["Type"]?.int == nil)
        #expect(message["Missing"] == nil)
        #expect(message["Count"]?.integer(as: Int8.self) == 3)
        #expect(ValueSet.Value.int(300).integer(as: UInt8.self) == nil)
        #expect(ValueSet.Value.int(.max).double == nil)
    }

    @Test func keysStayUniqueAndInWireOrder() {
        var random = SeededGenerator(seed: 1)
        var message: ValueSet = [:]
        var model: [String: Int] = [:]
        for step in 0..<2_000 {
            let key = String(Int.random(in: 0...120, using: &random))
            if random.oneIn(3) {
                message[key] = nil
                model[key] = nil
            } else {
                message[key] = .int(Int64(step))
                model[key] = step
            }
            #expect(message.count == model.count)
        }
        #expect(message.keys == model.keys.sorted { ($0.utf8.count, $0) < ($1.utf8.count, $1) })
        for (key, value) in message { #expect(value.int == model[key]) }
        #expect(ValueSet(model.map { (key: $0.key, value: .int(Int64($0.value))) }) == message)
    }

    @Test func lastOfEqualKeysIsUsed() {
        #expect(ValueSet([(key: "a", value: 1), (key: "b", value: 2), (key: "a", value: 3)]) == ["a": 3, "b": 2])
        #expect((["a": 1, "a": 2] as ValueSet)["a"]?.int == 2)
    }

    @Test func keysAreComparedByTheirBytes() {
        var message: ValueSet = ["\u{E9}": 1]
        #expect(message["e\u{301}"] == nil)
        message["e\u{301}"] = 2
        #expect(message.count == 2)
    }

    @Test func equalIntegersAreEqualInBothCases() {
        #expect(ValueSet.Value.uint(5) == .int(5))
        #expect(ValueSet.Value.uint(5).hashValue == ValueSet.Value.int(5).hashValue)
        #expect(ValueSet.Value.uint(.max) != .int(-1))
        #expect(ValueSet.Value.int(1) != .double(1))
        #expect(ValueSet.Value(exactly: UInt64.max) == .uint(.max))
        #expect(ValueSet.Value(exactly: Int128(1) << 64) == nil)
    }
}
