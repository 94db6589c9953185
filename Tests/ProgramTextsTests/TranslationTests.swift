// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import ProgramTexts

@Suite struct TranslationTests {
    private let german = Translation(templates: [
        "Online": "Erreichbar",
        "NAME": "NAME",
        "it was cancelled": "es wurde abgebrochen",
        "not opened: {1}": "nicht geöffnet: {1}",
        "Failed on {1}: {2}": "{2} (auf {1} fehlgeschlagen)",
        "Failed on {1}: the disk is full": "Auf {1} ist die Platte voll",
        "there is no device '{1}': see `relay devices {2}`": "es gibt kein Gerät '{1}': siehe `relay devices {2}`",
        "answer from {1}: number {2}, {3} ms": "Antwort {2} von {1} in {3} ms",
        "{1}{2}  from {3}": "{1}{2}  von {3}",
        ", was here": ", war hier",
        "; it needs a new link": "; es braucht einen neuen Link",
        " and ": " und ",
        "{1} on {2}": "{1} auf {2}",
        "the join": "der Beitritt",
        "{1} wants {2}": "{1} will {2}",
        "says that {1} wants {2} today": "sagt, heute will {1} {2}",
        "first line\nof {1}": "erste Zeile\nvon {1}",
    ])

    @Test(arguments: [
        ("Online", "Erreichbar"), ("online", "erreichbar"), ("It was cancelled", "Es wurde abgebrochen"),
        ("not opened: it was cancelled", "nicht geöffnet: es wurde abgebrochen"),
        ("Not opened: it was cancelled", "Nicht geöffnet: es wurde abgebrochen"),
        ("Failed on TV: it was cancelled", "es wurde abgebrochen (auf TV fehlgeschlagen)"),
        ("answer from TV: number 3, 1.5 ms", "Antwort 3 von TV in 1.5 ms"),
        ("the join; it needs a new link", "der Beitritt; es braucht einen neuen Link"),
        ("the join and the join", "der Beitritt und der Beitritt"),
        ("photo.jpg, was here  from TV", "photo.jpg, war hier  von TV"),
        ("first line\nof all", "erste Zeile\nvon all"),
        ("a\nsays that b wants c today\nOnline", "a\nsagt, heute will b c\nErreichbar"),
        ("a; says that b wants c today", "a; sagt, heute will b c"),
        ("not opened: a\nOnline", "nicht geöffnet: a\nErreichbar"), ("first line\nof a\nb", "erste Zeile\nvon a\nb"),
        ("Online\nunknown\nit was cancelled", "Erreichbar\nunknown\nes wurde abgebrochen"),
        ("", ""), ("nothing of this", "nothing of this"), ("not opened", "not opened"),
    ])
    func textsAreTranslated(_ english: String, _ expected: String) {
        #expect(german.text(english) == expected)
        #expect(Translation.english.text(english) == english)
    }

    @Test func theTemplateWithMostBytesIsTaken() {
        #expect(german.text("Failed on TV: the disk is full") == "Auf TV ist die Platte voll")
    }

    /// What another device names itself is no text of the program.
    @Test(arguments: ["Online", "it was cancelled", "not opened: x", "Failed on {1}: {2}", "{2}", "", "a: b; c, d", "ä\u{301}🙂"])
    func namesInQuotesStay(_ name: String) {
        #expect(
            german.text("there is no device '\(name)': see `relay devices \(name)`")
                == "es gibt kein Gerät '\(name)': siehe `relay devices \(name)`"
        )
        #expect(german.text("not opened: \"\(name)\"") == "nicht geöffnet: \"\(name)\"")
    }

    @Test func aNameThatLooksLikeAVagueTemplateStays() {
        #expect(german.text("not opened: Films on Sunday") == "nicht geöffnet: Films on Sunday")
        #expect(german.text("a on b") == "a auf b")
    }

    /// Braces of a value are not places.
    @Test func valuesAreNotReadAgain() {
        #expect(german.text("Failed on {2}: {1}") == "{1} (auf {2} fehlgeschlagen)")
    }

    @Test func templatesWithOtherPlacesAreLeftOut() {
        let wrong = Translation(templates: ["a {1} b": "c", "d {1} e": "f {2} g", "h {1} {1}": "i {1} {1}", "k": "l {1}"])
        #expect(wrong.isEnglish)
    }

    @Test func bracesWithoutNumbersAreText() {
        let translation = Translation(templates: ["open: {ask: […]} of {uri} and {} {{1} {123}": "{ask: […]} {uri} {} {{1} {123} öffnen"])
        #expect(translation.text("open: {ask: […]} of {uri} and {} {x {123}") == "{ask: […]} {uri} {} {x {123} öffnen")
    }

    @Test func overlongTextsStayEnglish() {
        let name = String(repeating: "x", count: Translation.maximumBytes)
        #expect(german.text("not opened: \(name)") == "not opened: \(name)")
        #expect(german.text("not opened: \(name.dropLast(12))") == "nicht geöffnet: \(name.dropLast(12))")
    }

    @Test func deepTextsEnd() {
        let deep = String(repeating: "not opened: ", count: 100) + "it was cancelled"
        let text = german.text(deep)
        #expect(text.hasPrefix(String(repeating: "nicht geöffnet: ", count: Translation.maximumDepth)))
        #expect(text.hasSuffix("not opened: it was cancelled"))
    }

    /// The worst texts are those that nearly match, at each position, and those of many parts.
    @Test(arguments: [
        "not opened", "; it needs a new lin", "Failed on Failed on ", "a; ", "and ", " and ", "\n", "'", "\"", "`", ": ", "{1}",
        "answer from : number , ",
    ])
    func theTimeIsLinear(_ part: String) {
        let steps = [2_000, 4_000, 8_000].map { count in
            var steps = 0
            _ = german.text(String(String(repeating: part, count: count).prefix(count)), steps: &steps)
            return steps
        }
        #expect(steps[0] > 0)
        #expect(steps[1] <= 2 * steps[0] + 4_000)
        #expect(steps[2] <= 2 * steps[1] + 4_000)
    }

    /// Each text that was made of a template is translated, whatever the values are, if they do not have the template's own words.
    @Test func generatedTextsAreTranslated() {
        var random = SeededGenerator(seed: 11)
        for _ in 0..<2_000 {
            let count = Int.random(in: 1...5, using: &random)
            let literals = (0...count).map { _ in word(&random, of: "abcdefgh .:`'é漢") }
            let values = (0..<count).map { _ in word(&random, of: "UVWXYZ") }
            let order = (1...count).shuffled(using: &random)
            let pieces = (0..<count).map { "\(literals[$0]){\($0 + 1)}" }.joined() + literals[count]
            let translation = Translation(templates: [pieces: "«" + order.map { "{\($0)}" }.joined(separator: "|") + "»"])
            let text = zip(literals, values).map { $0 + $1 }.joined() + literals[count]
            #expect(translation.text(text) == "«" + order.map { values[$0 - 1] }.joined(separator: "|") + "»", "\(pieces)")
        }
    }

    /// A text from outside has no effect but to stay as it is.
    @Test func generatedTextsWithoutATemplateStay() {
        var random = SeededGenerator(seed: 12)
        for _ in 0..<2_000 {
            let text = (0..<Int.random(in: 0...6, using: &random)).map { _ in word(&random, of: "XY {}1\"'`é🙂;:,.()\n") }.joined()
            #expect(german.text(text) == text)
        }
    }

    private func word(_ random: inout SeededGenerator, of letters: String) -> String {
        let letters = Array(letters)
        return String((0..<Int.random(in: 1...6, using: &random)).map { _ in letters[Int.random(in: 0..<letters.count, using: &random)] })
    }
}
