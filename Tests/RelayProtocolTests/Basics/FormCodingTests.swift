// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@Suite struct FormCodingTests {
    @Test func formValuesRoundTrip() {
        for text in ["", "a b+c%d", "&=?#/", "é🎬", "-._~"] {
            let encoded = FormCoding.encode(text)
            #expect(FormCoding.decode(encoded.utf8) == text)
            #expect(encoded.utf8.allSatisfy { $0 == UInt8(ascii: "%") || !"&=+ #".utf8.contains($0) })
        }
        #expect(FormCoding.encode("a b/é") == "a%20b%2F%C3%A9")
        #expect(FormCoding.decode("a+b%2fc".utf8) == "a b/c")
    }

    /// Neither as they are nor percent-encoded.
    @Test func controlCharactersAreRejected() {
        let controls = [0...0x1F, 0x7F...0x9F] as [ClosedRange<UInt32>]
        for scalar in controls.joined().compactMap(Unicode.Scalar.init) {
            let text = "a\(scalar)b"
            #expect(FormCoding.decode(text.utf8) == nil && FormCoding.decode(FormCoding.encode(text).utf8) == nil, "U+\(scalar.value)")
        }
    }

    @Test(arguments: ["%", "%4", "%4g", "%zz", "%ff"]) func invalidPercentEncodingIsRejected(text: String) {
        #expect(FormCoding.decode(text.utf8) == nil)
    }
}
