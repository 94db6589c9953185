// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A language that pages have words in. Its raw value names it in HTML, in headers and in the names of files.
package enum PageLanguage: String, CaseIterable, Sendable {
    case german = "de"
    case english = "en"
    case french = "fr"
    /// Written in simplified characters.
    case chinese = "zh"

    /// A longer header is ignored. Browsers send less than 100 bytes.
    static let maximumBytes = 1_024
    package static let maximumRanges = 32

    /// Chooses a language for a browser (RFC 9110 §12.5.4): the one that it wants most and that there is. Ranges that are not right are
    /// ignored. English is for all others.
    /// - Parameter field: The value of `Accept-Language`; `nil` if there is none.
    package init(accepting field: String?) {
        var best = (language: PageLanguage.english, weight: 0)
        let bytes = (field ?? "").utf8
        if bytes.count <= Self.maximumBytes {
            for range in bytes.split(separator: UInt8(ascii: ",")).prefix(Self.maximumRanges) {
                if let wanted = Self.wanted(range), wanted.weight > best.weight { best = wanted }
            }
        }
        self = best.language
    }

    /// The language of a tag such as `de-AT` (RFC 5646); `nil` if there are no words in it.
    /// - Parameter tag: Subtags in any case, separated by hyphens.
    package init?(tag: String) {
        guard tag.utf8.count <= Self.maximumBytes, let language = Self.language(Array(tag.utf8)) else { return nil }
        self = language
    }

    /// Returns the language of a range such as `de-AT;q=0.8`, and its weight in thousandths.
    private static func wanted(_ range: Substring.UTF8View) -> (language: PageLanguage, weight: Int)? {
        let parts = range.split(separator: UInt8(ascii: ";"), maxSplits: 1, omittingEmptySubsequences: false).map(trimmed)
        guard let tag = parts.first, let language = language(tag) else { return nil }
        guard parts.count == 2 else { return (language, 1_000) }
        return weight(parts[1]).map { (language, $0) }
    }

    private static func language(_ tag: [UInt8]) -> PageLanguage? {
        if tag == [UInt8(ascii: "*")] { return .english }
        let subtags = tag.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false).map { $0.map(lowercased) }
        let isRight = subtags.allSatisfy { (1...8).contains($0.count) && $0.allSatisfy(isLetterOrDigit) }
        guard isRight, let first = subtags.first, let language = PageLanguage(rawValue: String(decoding: first, as: UTF8.self)) else {
            return nil
        }
        guard language == .chinese else { return language }
        // Elsewhere Chinese is written in traditional characters, unless the tag names the script.
        let others = subtags.dropFirst().map { String(decoding: $0, as: UTF8.self) }
        if others.contains("hans") { return language }
        return others.contains { ["hant", "hk", "mo", "tw"].contains($0) } ? nil : language
    }

    /// Returns the value of a parameter such as `q=0.8` in thousandths.
    private static func weight(_ parameter: [UInt8]) -> Int? {
        guard parameter.count >= 3, lowercased(parameter[0]) == UInt8(ascii: "q"), parameter[1] == UInt8(ascii: "=") else { return nil }
        let (whole, rest) = (parameter[2], parameter.dropFirst(3))
        guard rest.isEmpty || rest.first == UInt8(ascii: "."), rest.count <= 4 else { return nil }
        let digits = ([whole] + rest.dropFirst()).map { Int($0) - 48 }
        guard digits.allSatisfy((0...9).contains) else { return nil }
        let value = (digits + [0, 0, 0]).prefix(4).reduce(0) { 10 * $0 + $1 }
        return value <= 1_000 ? value : nil
    }

    private static func trimmed(_ text: Substring.UTF8View) -> [UInt8] {
        let isSpace = { (byte: UInt8) in byte == 0x20 || byte == 0x09 }
        return Array(Array(text.drop(while: isSpace)).reversed().drop(while: isSpace).reversed())
    }

    private static func lowercased(_ byte: UInt8) -> UInt8 { (0x41...0x5A).contains(byte) ? byte | 0x20 : byte }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte) || (0x30...0x39).contains(byte) }
}
