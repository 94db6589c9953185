// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import ConsoleFiles

/// The choice of a language by `Accept-Language` (RFC 9110 §12.5.4).
@Suite struct PageLanguageTests {
    @Test(
        arguments: [
            (nil, .english), ("", .english), ("de", .german), ("DE-at", .german), ("fr-CH, fr;q=0.9, en;q=0.8, de;q=0.7, *;q=0.5", .french),
            ("ja, de;q=0.1", .german), ("en;q=0.1,fr;q=0.2", .french), ("fr;q=0.5,de;q=0.5", .french), ("de;q=0", .english),
            ("de;q=0.000, fr;q=0.001", .french), ("*", .english), ("*, de;q=0.9", .english), ("de;q=1.000", .german),
            (" \tde \t;\t q=0.5 , ", .german), (",,,de", .german), ("de;Q=0.4,fr;q=0.3", .german),
            ("zh", .chinese), ("zh-CN", .chinese), ("zh-SG,en", .chinese), ("zh-Hans-HK", .chinese), ("zh-Hans", .chinese),
            ("zh-TW,zh;q=0.9,en;q=0.8", .chinese), ("zh-TW,fr;q=0.1", .french), ("zh-Hant-CN,de;q=0.1", .german), ("zh-HK", .english),
        ] as [(String?, PageLanguage)]
    )
    func firstOfThoseThatThereAre(_ field: String?, _ language: PageLanguage) {
        #expect(PageLanguage(accepting: field) == language)
    }

    /// A range that is not right decides nothing.
    private static let wrong = [
        "de;q=1.001", "de;q=2", "de;q=-1", "de;q=0.1234", "de;q=.5", "de;q=", "de;q", "de;", "de;;q=1", "de;q=1;q=1", "de;q=0x1", "de;w=1",
        "de;q=0.5 x", "de;q=１", "de_AT", "de-", "-de", "de--AT", "deutsch!", "d e", "de-abcdefghi", "d\u{301}e", "ｄｅ", "\u{0}de", "\"de\"",
        "de;q=NaN", "de;q=1e3", "de;q=0,5x",
    ]

    @Test(arguments: wrong)
    func wrongRangeIsIgnored(_ range: String) {
        #expect(PageLanguage(accepting: range) == .english)
        #expect(PageLanguage(accepting: "\(range), fr;q=0.001") == .french)
        #expect(PageLanguage(accepting: "fr;q=0.001 ,\(range)") == .french)
    }

    @Test func fieldIsBounded() {
        let padding = String(repeating: "x", count: PageLanguage.maximumBytes - 3)
        #expect(PageLanguage(accepting: "de," + padding) == .german)
        #expect(PageLanguage(accepting: "de,x" + padding) == .english)
        let others = Array(repeating: "ja", count: PageLanguage.maximumRanges - 1).joined(separator: ",")
        #expect(PageLanguage(accepting: others + ",de") == .german)
        #expect(PageLanguage(accepting: others + ",ja,de") == .english)
    }

    /// Any text has a result, which is that of its ranges that are right.
    @Test(arguments: [UInt64.random(in: .min ... .max)])
    func anyTextHasALanguage(_ seed: UInt64) {
        var state = seed
        func next(_ bound: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state >> 33) % bound
        }
        let pieces = [
            "de", "fr", "zh", "en", "-", ";", ",", "q", "=", "0", "1", ".", "5", " ", "\t", "*", "TW", "Hans", "\u{301}", "\u{0}", "é",
            "\"",
        ]
        for _ in 0..<20_000 {
            let text = (0..<next(24)).map { _ in pieces[next(pieces.count)] }.joined()
            let language = PageLanguage(accepting: text)
            #expect(PageLanguage(accepting: text + ",x y;q=1") == language, "\(text.debugDescription), seed \(seed)")
            #expect(language == .english || text.contains(language.rawValue), "\(text.debugDescription), seed \(seed)")
            // Whatever it is, a range of full weight in front of it wins.
            #expect(PageLanguage(accepting: "fr," + text) == .french, "\(text.debugDescription), seed \(seed)")
        }
    }
}
