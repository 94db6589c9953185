// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Dictionaries of boxed values, as ported apps have them.
@Suite struct ValueSetDictionaryTests {
    @Test func eachTypeHasItsValueAndComesBack() throws {
        let (date, id) = (Date(timeIntervalSince1970: 1_767_225_600.5), UUID())
        let boxed: [String: Any] = [
            "Text": "é", "True": true, "Int": 3, "Small": Int8(-4), "Large": UInt64.max, "Double": 3.0, "Float": Float(0.5),
            "Date": date, "UUID": id, "Data": Data([0, 1, 255]), "Array": ["a", "b"], "Empty": [Any](),
            "Set": ["Type": "seek", "At": [1, 2]] as [String: Any],
        ]
        let set = try ValueSet(dictionary: boxed)
        #expect(
            set == [
                "Text": "é", "True": true, "Int": 3, "Small": -4, "Large": .uint(.max), "Double": 3.0, "Float": 0.5, "Date": .date(date),
                "UUID": .uuid(id), "Data": .data([0, 1, 255]), "Array": ["a", "b"], "Empty": .array([]),
                "Set": .valueSet(["Type": "seek", "At": [1, 2]]),
            ]
        )
        let back = set.dictionary
        #expect(back["Int"] as? Int == 3 && back["Large"] as? UInt64 == .max && back["Double"] as? Double == 3)
        #expect(back["True"] as? Bool == true && back["Data"] as? Data == Data([0, 1, 255]) && back["Date"] as? Date == date)
        #expect((back["Set"] as? [String: Any])?["At"] as? [Int] == [1, 2])
        #expect(try ValueSet(dictionary: back) == set)
        // The message can be sent.
        #expect(try ValueSet(decoding: set.encodedBytes()) == set)
    }

    @Test func mixedNumbersOfAnArrayBecomeDoubles() throws {
        let set = try ValueSet(dictionary: ["Marks": [1, 2.5, Float(3), UInt8(4)] as [Any], "Whole": [1, UInt64.max] as [Any]])
        #expect(set == ["Marks": [1.0, 2.5, 3.0, 4.0], "Whole": .array([.int(1), .uint(.max)])])
        #expect(try ValueSet(decoding: set.encodedBytes()) == set)
    }

    @Test func valuesWithoutACounterpartAreNamed() {
        let cases: [([String: Any], ValueSetError.Code, String)] = [
            (["a": [1, "b"] as [Any]], .mixedArray, "a[1]"), (["a": [true, 1] as [Any]], .mixedArray, "a[1]"),
            (["a": ["b": NSObject()] as [String: Any]], .unsupportedType, "a.b"),
            (["a": [0.5, Int64.max] as [Any]], .numberOutOfRange, "a[1]"),
            (["a": ["b": [Optional<Int>.none as Any]] as [String: Any]], .unsupportedType, "a.b[0]"),
        ]
        for (dictionary, code, path) in cases {
            let error = #expect(throws: ValueSetError.self) { _ = try ValueSet(dictionary: dictionary) }
            #expect(error?.code == code && error?.keyPath == path, "\(String(describing: error))")
        }
    }

    @Test func depthIsBounded() throws {
        func nested(_ levels: Int) -> [String: Any] { levels == 1 ? ["x": 1] : ["x": nested(levels - 1)] }
        #expect(try ValueSet(dictionary: nested(32)).encodedBytes().count > 32)
        #expect(throws: ValueSetError.self) { _ = try ValueSet(dictionary: nested(33)) }
        var array: Any = [1]
        for _ in 0..<40 { array = [array] }
        let error = #expect(throws: ValueSetError.self) { _ = try ValueSet(dictionary: ["x": array]) }
        #expect(error?.code == .tooDeep)
    }

    /// Every message comes back from its dictionary.
    @Test(arguments: 0..<200 as Range<UInt64>)
    func randomMessagesComeBack(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let set = ValueSet.random(using: &random)
        let back = try ValueSet(dictionary: set.dictionary)
        #expect(try back.encodedBytes() == set.encodedBytes(), "seed \(seed)")
    }
}
