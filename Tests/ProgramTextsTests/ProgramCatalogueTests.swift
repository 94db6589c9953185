// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import Foundation
import RelayTesting
import Testing

@testable import ProgramTexts

/// The translations of both programs' texts.
@Suite(.timeLimit(.minutes(2))) struct ProgramCatalogueTests {
    static let languages = PageLanguage.allCases.filter { $0 != .english }

    private static let root = URL(filePath: #filePath).appending(path: "../../..").standardizedFileURL

    /// The texts of the sources, as `scripts/texts` lists them.
    private static func texts() async throws -> Set<String> {
        let list = try await ProcessRun.output(of: ["python3", root.path + "/scripts/texts"])
        return Set(try JSONDecoder().decode([String].self, from: Data(list.utf8)))
    }

    @Test func eachLanguageHasTheTextsOfTheSources() async throws {
        let texts = try await Self.texts()
        #expect(texts.count > 2_000 && texts.contains("there is no device '{1}': see `relay devices --all`"))
        for language in Self.languages {
            #expect(texts.symmetricDifference(Catalogue.templates(language).keys) == [], "\(language)")
        }
    }

    /// A translation with other places than English would not be used.
    @Test(arguments: languages) func placesAndCodesAreThoseOfEnglish(_ language: PageLanguage) {
        let templates = Catalogue.templates(language)
        #expect(!templates.isEmpty)
        for (english, translated) in templates {
            #expect(Template(english).places.sorted() == Template(translated).places.sorted(), "\(english)")
            #expect(Self.codes(english) == Self.codes(translated), "\(english): \(translated)")
            #expect(Self.ends(english) == Self.ends(translated) || language == .chinese, "\(english): \(translated)")
        }
    }

    /// What is in backticks, and options.
    private static func codes(_ text: String) -> [String] {
        text.matches(of: /`[^`]*`|\B--[a-z][a-z-]*/).map { String($0.0) }.sorted()
    }

    /// The spaces at the ends.
    private static func ends(_ text: String) -> [Int] { [text.prefix { $0 == " " }.count, text.reversed().prefix { $0 == " " }.count] }

    @Test(arguments: languages) func textsControlNothing(_ language: PageLanguage) {
        for (english, translated) in Catalogue.templates(language) {
            #expect(!translated.isEmpty)
            #expect(english.filter(\.isNewline).count == translated.filter(\.isNewline).count, "\(english)")
            let isControl = { (scalar: Unicode.Scalar) in
                [.control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned].contains(
                    scalar.properties.generalCategory
                )
            }
            #expect(!translated.unicodeScalars.contains { isControl($0) && $0 != "\n" }, "\(english)")
        }
    }

    /// A short template takes nothing of the texts before and after it.
    @Test(arguments: [
        (
            "Desk: desktop, linux, endpoint abcdefgh, device abcdefgh, joined 3 min ago, invited by abcdefgh (revoked), Online for 4 h",
            "Desk: desktop, linux, Endpunkt abcdefgh, Gerät abcdefgh, beigetreten vor 3 min, eingeladen von abcdefgh (ausgeschlossen), Online seit 4 h"
        ),
        (
            "new device: \"TV\" (desktop, linux); joined T from A, as the relay says; words: w; run relay approve x, or relay revoke and the same id",
            "neues Gerät: \"TV\" (desktop, linux); beigetreten T von A, laut Relay; Wörter: w; relay approve x ausführen, oder relay revoke mit derselben ID"
        ),
        ("invited by \"TV; x\"", "eingeladen von \"TV; x\""), ("Opened on \"TV; x\"", "Auf \"TV; x\" geöffnet"),
        (
            "there is no file or folder 'x', and it is no URI; to send it as a text, write --text=x",
            "es gibt keine Datei und keinen Ordner 'x', und es ist keine URI; um es als Text zu senden, --text=x schreiben"
        ),
    ])
    func textsOfSeveralTextsAreTranslated(_ english: String, _ german: String) {
        #expect(Translation(.language(.german)).text(english) == german)
    }

    /// A text of many texts, perhaps by another device, takes a time that grows with its length alone.
    @Test func textsOfManyTextsAreTranslatedInTime() {
        var random = SeededGenerator(seed: Sweep.seed)
        let translation = Translation(.language(.german))
        let english = Catalogue.templates(.german).keys.filter { !$0.contains("\n") }.sorted()
        let separators = ["; ", ", ", ": ", ". ", " and ", " or ", "  ", " ("]
        var units = ["relay: 'b c' did not arrive  ", "3 min or '3' has several endpoints, On b c, not opened yet or "]
        for _ in 0..<Sweep.count(6, full: 200) {
            units.append(
                (0..<Int.random(in: 1...3, using: &random)).map { _ in
                    english.randomElement(using: &random).map { $0.replacing(/\{[0-9]+\}/, with: "a b") } ?? ""
                }
                .joined(separator: separators.randomElement(using: &random) ?? "") + (separators.randomElement(using: &random) ?? "")
            )
        }
        for unit in units {
            let text = String(("a, " + String(repeating: unit, count: 250 / unit.count + 1)).prefix(250))
            var steps = 0
            _ = translation.text(text, steps: &steps)
            #expect(steps <= 40_000 * text.utf8.count, "\(text)")
        }
    }

    /// What is in quotes and addresses is no text.
    @Test func frenchSignsHaveSpaces() {
        for (english, french) in Catalogue.templates(.french) {
            let text = french.replacing(/`[^`]*`|'[^']*'|"[^"]*"|https?:\S*|\S*:\/\/\S*/, with: "")
            #expect(text.firstMatch(of: /[\p{L}\d}] [;!?»]/) == nil && text.firstMatch(of: /[\p{L}}][;!?]/) == nil, "\(english): \(french)")
            #expect(text.firstMatch(of: /«[^\u{A0}\u{202F}]/) == nil, "\(english): \(french)")
        }
    }

    @Test func chineseHasNoEnglishSentences() {
        for (english, chinese) in Catalogue.templates(.chinese) {
            // Names of things that have no other name in Chinese, such as `Web Push` or `App Store`.
            let text = chinese.replacing(/`[^`]*`|'[^']*'|"[^"]*"/, with: "")
            #expect(text.firstMatch(of: /\b[a-z]{2,} (?:the|of|is|a|to|it|and|in|not|be)\b/) == nil, "\(english): \(chinese)")
        }
    }

    @Test(arguments: languages) func theMadeLanguageKeepsPlaces(_ language: PageLanguage) {
        for english in Catalogue.templates(language).keys {
            #expect(Template(PseudoLanguage.text(english)).places == Template(english).places, "\(english)")
        }
    }
}
