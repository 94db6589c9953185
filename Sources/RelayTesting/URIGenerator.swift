// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Usual addresses, and unusual ones: with escapes, lone `%`, several `#`, brackets, letters outside ASCII,
/// spaces, quotes and characters that cannot be seen.
package struct URIGenerator {
    private static let starts = [
        "https://a.example/", "http://a.example:8080/p", "HTTPS://u:p@[2606:4700::1111]:443/", "https://matrix.to/#/",
        "https://xn--bcher-kva.example?",
        "https://b\u{FC}cher.example/", "https://\u{65E5}\u{672C}\u{8A9E}.example/", "mailto:", "x-film:", "x-film://host/", "file:///",
        "tel:+",
    ]
    private static let common = [
        "a", "Z", "0", "-", "_", ".", "~", "/", "//", "?", "&", "=", "+", "#", "#!", "%", "%%", "%2", "%zz", "%20", "%25", "%23", "%2F",
        "%C3%A4", "%00",
        "!", "$", "'", "(", ")", "*", ",", ";", ":", "@", "[", "]", "--help",
    ]
    private static let outside = ["\u{E4}", "a\u{308}", "\u{65E5}", "\u{1F4FA}", "\u{410}", "\u{DF}"]
    private static let refused = [
        " ", "\"", "<", ">", "\\", "^", "`", "{", "|", "}", "\n", "\t", "\u{1}", "\u{1B}[31m", "\u{7F}", "\u{9B}", "\u{202E}", "\u{2028}",
        "\u{FEFF}",
    ]

    private var random: SeededGenerator

    package init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    package mutating func next() -> String {
        var text = Self.starts.randomElement(using: &random) ?? ""
        let (hasOutside, hasRefused) = (random.oneIn(5), random.oneIn(4))
        for _ in 0..<Int.random(in: 0...24, using: &random) { text += Self.common.randomElement(using: &random) ?? "" }
        if hasOutside { text += (Self.outside.randomElement(using: &random) ?? "") + "x%41" }
        if hasRefused { text += (Self.refused.randomElement(using: &random) ?? "") + "y" }
        return text
    }
}
