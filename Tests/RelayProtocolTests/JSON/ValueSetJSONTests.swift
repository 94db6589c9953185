// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct ValueSetJSONTests {
    private func rejection(_ text: String) -> ValueSetError? {
        do throws(ValueSetError) {
            _ = try ValueSet(json: text)
            return nil
        } catch {
            return error
        }
    }

    @Test func eachKindHasItsJSONForm() throws {
        let message: ValueSet = [
            "a": "x\n\"\u{1}é", "b": true, "c": 5, "d": 5.0, "e": .int(1 << 53), "f": .uint(.max), "g": .double(.nan), "h": -0.0,
            "i": .date(Date(timeIntervalSince1970: 1.5)), "j": .data([255, 0]), "k": [1, 2], "l": [:], "$m": 1, "$$n": ["$date": 2],
            "o": .uuid(try #require(UUID(uuidString: "00112233-4455-6677-8899-AABBCCDDEEFF"))),
        ]
        let text =
            #"{"a":"x\n\"\u0001é","b":true,"c":5,"d":5.0,"e":{"$int":"9007199254740992"},"f":{"$int":"18446744073709551615"},"#
            + #""g":{"$double":"NaN"},"h":-0.0,"i":{"$date":1.5},"j":{"$data":"/wA="},"k":[1,2],"l":{},"#
            + #""o":{"$uuid":"00112233-4455-6677-8899-aabbccddeeff"},"$$m":1,"$$$n":{"$$date":2}}"#
        #expect(try message.json() == text)
        let read = try ValueSet(json: text)
        #expect(read["g"]?.double?.isNaN == true)
        #expect(read["h"]?.double?.sign == .minus)
        #expect(try read.json() == text)
    }

    @Test func randomMessagesRoundTrip() throws {
        for seed in 0..<2_000 as Range<UInt64> {
            var random = SeededGenerator(seed: seed)
            let message = ValueSet.random(using: &random)
            let text = try message.json()
            let read = try ValueSet(json: text)
            #expect(read == message, "seed \(seed)")
            #expect(try read.json() == text, "seed \(seed)")
            // Foundation also reads it as JSON.
            #expect(throws: Never.self, "seed \(seed)") { try JSONSerialization.jsonObject(with: Data(text.utf8)) }
        }
    }

    @Test func otherJSONNotationsAreRead() throws {
        let text =
            " { \"a\" : [ 1 , 2 ] ,\r\n\t\"b\": \"\\u00e9\\ud83d\\ude00\\/\\b\\f\" , \"c\": 1E2, \"d\": -0, \"e\": 9223372036854775808 } "
        let message = try ValueSet(json: text)
        #expect(message == ["a": [1, 2], "b": "é😀/\u{8}\u{C}", "c": 100.0, "d": -0.0, "e": .uint(1 << 63)])
        #expect(try ValueSet(json: #"{"a":{"$date":5}}"#)["a"]?.date == Date(timeIntervalSince1970: 5))
        #expect(try ValueSet(json: #"{"a":{"$int":"7"}}"#)["a"] == 7)
    }

    static let refused: [(String, ValueSetError.Code, String)] = [
        ("", .truncated, ""), (" ", .truncated, ""), ("{", .truncated, ""), (#"{"a""#, .truncated, ""), (#"{"a":"#, .truncated, "a"),
        (#"{"a":1"#, .truncated, ""), (#"{"a":[1"#, .truncated, "a"), (#"{"a":"x"#, .truncated, "a"), (#"{"a":"\u12"#, .truncated, "a"),
        (#"{"a":tr"#, .truncated, "a"), (#"{"a":-"#, .truncated, "a"), (#"{"a":1."#, .truncated, "a"), (#"{"a":1e"#, .truncated, "a"),
        ("[]", .notAValueSet, ""), ("1", .notAValueSet, ""), (#""a""#, .notAValueSet, ""), (#"{"$date":1}"#, .notAValueSet, ""),
        ("{} {}", .trailingBytes, ""), ("{}x", .trailingBytes, ""), ("{1:2}", .nonStringKey, ""), ("{'a':1}", .nonStringKey, ""),
        (#"{"a":1,}"#, .nonStringKey, ""), (#"{"a":1,"a":1}"#, .duplicateKey, "a"), (#"{"a":{"b":1,"\u0062":2}}"#, .duplicateKey, "a.b"),
        (#"{"a":[1,"b"]}"#, .mixedArray, "a[1]"), (#"{"a":[1,2.0]}"#, .mixedArray, "a[1]"), (#"{"a":null}"#, .unsupportedType, "a"),
        (#"{"a":{"$foo":1}}"#, .unknownTag, "a"), (#"{"a":{"$ref":1,"b":2}}"#, .unknownTag, "a.\"$ref\""),
        (#"{"a":{"$int":7}}"#, .invalidTagContent, "a"), (#"{"a":{"$int":"1.5"}}"#, .invalidTagContent, "a"),
        (#"{"a":{"$date":"now"}}"#, .invalidTagContent, "a"), (#"{"a":{"$uuid":"x"}}"#, .invalidTagContent, "a"),
        (#"{"a":{"$data":"%%"}}"#, .invalidTagContent, "a"), (#"{"a":{"$data":"QR=="}}"#, .invalidTagContent, "a"),
        (#"{"a":{"$int":"+5"}}"#, .invalidTagContent, "a"), (#"{"a":{"$int":"007"}}"#, .invalidTagContent, "a"),
        (#"{"a":{"$date":{"$double":"NaN"}}}"#, .invalidTagContent, "a"), (#"{"a":{"$double":"1"}}"#, .invalidTagContent, "a"),
        (#"{"a":01}"#, .invalidSyntax, ""), (#"{"a":+1}"#, .invalidSyntax, "a"), (#"{"a":.5}"#, .invalidSyntax, "a"),
        (#"{"a":1.e5}"#, .invalidSyntax, "a"), (#"{"a":0x1}"#, .invalidSyntax, ""), (#"{"a":NaN}"#, .invalidSyntax, "a"),
        (#"{"a" 1}"#, .invalidSyntax, ""), (#"{"a":[1 2]}"#, .invalidSyntax, "a"), (#"{"a":"\x"}"#, .invalidSyntax, "a"),
        ("{\"a\":\"\n\"}", .invalidSyntax, "a"), (#"{"a":"\u12G4"}"#, .invalidSyntax, "a"), (#"{"a":truE}"#, .invalidSyntax, "a"),
        (#"{"a":"\ud800"}"#, .invalidText, "a"), (#"{"a":"\udc00"}"#, .invalidText, "a"), (#"{"a":"\ud800\u0041"}"#, .invalidText, "a"),
        (#"{"a":18446744073709551616}"#, .integerOutOfRange, "a"), (#"{"a":-9223372036854775809}"#, .integerOutOfRange, "a"),
        (#"{"a":1e999}"#, .numberOutOfRange, "a"),
    ]

    @Test(arguments: refused) func refuses(_ text: String, _ code: ValueSetError.Code, _ keyPath: String) {
        let error = rejection(text)
        #expect(error?.code == code)
        #expect(error?.keyPath == keyPath)
        #expect(error?.offset != nil)
    }

    @Test func invalidUTF8IsRejected() {
        #expect(throws: ValueSetError.self) { try ValueSet(json: Array("{\"a\":\"".utf8) + [0xFF] + Array("\"}".utf8)) }
    }

    @Test func depthLimitMatchesCBOR() throws {
        func nested(_ levels: Int, _ innermost: String) -> String {
            String(repeating: #"{"a":"#, count: levels) + innermost + String(repeating: "}", count: levels)
        }
        #expect(try ValueSet(json: nested(31, #"{"b":{"$date":1}}"#)).encodedBytes().count > 0)
        #expect(rejection(nested(32, #"{"$date":1}"#)) == nil)
        #expect(rejection(nested(32, "{}"))?.code == .tooDeep)
        #expect(rejection(nested(32, "[]"))?.code == .tooDeep)
        #expect(rejection(nested(33, "1"))?.code == .tooDeep)
        #expect(rejection(String(repeating: #"{"a":"#, count: 100_000))?.code == .tooDeep)
        #expect(rejection(#"{"a":"# + String(repeating: "[", count: 100_000))?.code == .tooDeep)
        #expect(rejection(#"{"a":"# + String(repeating: #"{"$date":"#, count: 100_000))?.code == .tooDeep)
    }

    @Test func longNumbersAreReadOrRejected() {
        #expect(rejection(#"{"a":1\#(String(repeating: "0", count: 100_000))}"#)?.code == .integerOutOfRange)
        #expect(rejection(#"{"a":0.\#(String(repeating: "1", count: 100_000))}"#) == nil)
    }
}
