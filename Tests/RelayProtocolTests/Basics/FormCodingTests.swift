// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@Suite struct FormCodingTests {
    @Test func formValuesRoundTrip() {
        for text in ["", "a b+c%d", "&=?#/", "é🎬", "-._~", "\u{0}\n"] {
            let encoded = FormCoding.encode(text)
            #expect(FormCoding.decode(encoded.utf8) == text)
            #expect(encoded.utf8.allSatisfy { $0 == UInt8(ascii: "%") || !"&=+ #".utf8.contains($0) })
        }
        #expect(FormCoding.encode("a b/é") == "a%20b%2F%C3%A9")
        #expect(FormCoding.decode("a+b%2fc".utf8) == "a b/c")
    }

    @Test(arguments: ["%", "%4", "%4g", "%zz", "%ff"]) func invalidPercentEncodingIsRejected(text: String) {
        #expect(FormCoding.decode(text.utf8) == nil)
    }
}
