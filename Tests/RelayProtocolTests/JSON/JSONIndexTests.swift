// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

/// Strings are scanned several bytes at a time, so every special byte is tested at every position.
@Suite struct JSONIndexTests {
    private func index(_ text: [UInt8]) throws -> JSONIndex { try JSONIndex([UInt8(ascii: "\"")] + text + [UInt8(ascii: "\"")]) }

    private func plain(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(ascii: "a") + UInt8($0 % 26) } }

    @Test(arguments: 0..<20) func invalidStringBytesAreRejectedAtEveryOffset(before: Int) {
        for after in 0..<12 {
            for byte in [UInt8](0..<0x20) + [UInt8(ascii: "\"")] {
                #expect(throws: JSONSyntaxError.self) { try index(plain(before) + [byte] + plain(after)) }
            }
            for escape in [#"\x"#, #"\u00g0"#, #"\ud800"#] {
                #expect(throws: JSONSyntaxError.self) { try index(plain(before) + Array(escape.utf8) + plain(after)) }
            }
        }
        #expect(throws: JSONSyntaxError.self) { try JSONIndex([UInt8(ascii: "\"")] + plain(before)) }
        #expect(throws: JSONSyntaxError.self) { try index(plain(before) + [UInt8(ascii: "\\")]) }
    }

    @Test(arguments: 0..<20) func validStringBytesAreReadAtEveryOffset(before: Int) throws {
        for after in 0..<12 {
            for (json, text) in [
                (" ", " "), ("!", "!"), ("#", "#"), ("[", "["), ("]", "]"), ("\u{7F}", "\u{7F}"), ("é", "é"), ("\u{A2}", "\u{A2}"),
                ("\u{DC}", "\u{DC}"), ("🎬", "🎬"), (#"\""#, "\""), (#"\\"#, "\\"), (#"\n"#, "\n"), (#"\u00e9"#, "é"),
                (#"\ud83c\udfac"#, "🎬"),
            ] {
                let found = try index(plain(before) + Array(json.utf8) + plain(after))
                #expect(found.nodes.count == 1)
                let expected = String(decoding: plain(before) + Array(text.utf8) + plain(after), as: UTF8.self)
                #expect(found.text(found.nodes[0]) == expected)
            }
        }
    }

    @Test func numberOfValuesIsBounded() throws {
        func values(_ count: Int) -> [UInt8] { Array(("[" + Array(repeating: "0", count: count - 1).joined(separator: ",") + "]").utf8) }
        func members(_ count: Int) -> [UInt8] {
            Array(("{" + Array(repeating: #""a":0"#, count: count / 2).joined(separator: ",") + "}").utf8)
        }
        #expect(try JSONIndex(values(JSONIndex.maximumValues)).nodes.count == JSONIndex.maximumValues)
        #expect(throws: JSONSyntaxError.self) { try JSONIndex(values(JSONIndex.maximumValues + 1)) }
        #expect(try JSONIndex(members(JSONIndex.maximumValues - 1)).nodes.count == JSONIndex.maximumValues - 1)
        #expect(throws: JSONSyntaxError.self) { try JSONIndex(members(JSONIndex.maximumValues)) }
    }

    @Test func escapedKeysAreFound() throws {
        func value(of key: String, in json: String) throws -> String? {
            let index = try JSONIndex(Array(json.utf8))
            return index.member(key, of: 0).map { index.text(index.nodes[$0]) }
        }
        #expect(try value(of: "type", in: #"{"t\u0079pe":"a"}"#) == "a")
        #expect(try value(of: "type", in: #"{"\u0074\u0079\u0070\u0065":"a"}"#) == "a")
        #expect(try value(of: "é🎬", in: #"{"\u00e9\ud83c\udfac":"a"}"#) == "a")
        #expect(try value(of: "a/b", in: #"{"a\/c":"a","a\/b":"b"}"#) == "b")
        #expect(try value(of: "type", in: #"{"\u0074\u0079\u0070\u0065\u0065":"a"}"#) == nil)
        #expect(try value(of: "", in: #"{"\u0074":"a","":"b"}"#) == "b")
    }
}
