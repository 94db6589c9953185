// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@testable import RelayProtocol

@Suite struct ExactURLTests {
    @Test func textThatFoundationWouldChangeIsNoURL() {
        for text in ["https://a.example/p%20q?x=%41#f", "film:42", "/relative", "https://[::1]:80/"] {
            #expect(URL(exactly: text)?.absoluteString == text)
        }
        for text in [
            "https://a.example/p%20q#f#g%20h", "https://matrix.to/#/#room", "https://a.example/%zz", "https://a.example/ä",
            "https://ä.example/", "a b",
        ] {
            #expect(URL(exactly: text) == nil, "\(text)")
        }
    }

    @Test func urlInAValueSetIsExactOrRefused() throws {
        struct Message: Codable, Equatable { var url: URL }
        let message = Message(url: try #require(URL(string: "https://a.example/%20?q#f")))
        #expect(try ValueSetDecoder().decode(Message.self, from: try ValueSetEncoder().encode(message)) == message)
        #expect(throws: DecodingError.self) { try ValueSetDecoder().decode(Message.self, from: ["url": "https://a.example/#a#b%20"]) }
    }
}
