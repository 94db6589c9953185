// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@testable import RelayProtocol

@Suite struct Base64Tests {
    private func decode(_ text: String, _ coding: Base64 = .standard) -> [UInt8]? {
        var text = text
        return text.withUTF8(coding.decode)
    }

    @Test func rfcVectorsPass() {
        let texts = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]
        for (count, text) in texts.enumerated() {
            let bytes = Array("foobar".utf8.prefix(count))
            #expect(Base64.standard.encode(bytes) == text)
            #expect(decode(text) == bytes)
            #expect(Base64.url.encode(bytes) == text.replacing("=", with: ""))
        }
    }

    @Test func encodingMatchesFoundation() {
        for count in 0..<300 {
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255) }
            let text = Data(bytes).base64EncodedString()
            #expect(Base64.standard.encode(bytes) == text)
            #expect(decode(text) == bytes)
            var line = Array("a".utf8)
            Base64.standard.append(bytes, to: &line)
            #expect(line == Array(("a" + text).utf8))
            let url = text.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
            #expect(Base64.url.encode(bytes) == url)
            #expect(decode(url, .url) == bytes)
        }
    }

    /// Only the bytes of the alphabet are accepted, at every position.
    @Test func bytesOutsideTheAlphabetAreRejected() {
        for byte in UInt8.min...UInt8.max {
            for place in 0..<8 {
                var text = Array("AAAAAAAA".utf8)
                text[place] = byte
                let isTaken = text.withUnsafeBufferPointer(Base64.standard.decode) != nil
                let data = Data(base64Encoded: Data(text))
                #expect(isTaken == (data.map { $0.base64EncodedData() == Data(text) } ?? false), "\(byte) at \(place)")
            }
        }
    }

    @Test func decodedTextIsEncodedIdentically() {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<20_000 {
            let characters = Array("AQgwBCZaz09+/==-_\n".utf8)
            let text = (0..<Int.random(in: 0...9)).map { _ in characters.randomElement(using: &generator) ?? 0 }
            for coding in [Base64.standard, .url] {
                guard let bytes = text.withUnsafeBufferPointer(coding.decode) else { continue }
                #expect(Array(coding.encode(bytes).utf8) == text)
            }
        }
    }

    @Test(arguments: [
        "A", "AB=", "AA=", "A===", "====", "AB==", "AAB=", "AA==AAAA", "AAAA=", "AAAA====", "AA-A", "AA_A", "AAAA\n", "\u{E9}AA",
    ])
    func otherFormsAreRejected(text: String) {
        #expect(decode(text) == nil)
    }

    @Test(arguments: ["A", "AB=", "AA==", "A+AA", "A/AA", "A A", "AB", "AAB", "\u{E9}AAA", "AAAA\n"])
    func otherURLFormsAreRejected(text: String) {
        #expect(Base64.url.decode(text) == nil)
    }
}
