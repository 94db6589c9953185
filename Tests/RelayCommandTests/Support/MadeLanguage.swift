// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import Foundation
import RelayTesting
import Testing

@testable import ProgramTexts

/// What runs in the made language of the locale `en_XA`, and what was forgotten there.
final class MadeLanguage {
    static let variables = ["LC_ALL": "en_XA.UTF-8"]

    let program: DescribedCommand
    /// Names and codes among the values that the program prints.
    var known: Set<String>
    private var called: Set<String> = []

    init(_ program: String, known: Set<String>) async throws {
        self.program = try await DescribedCommand.program(program)
        self.known = known.union(self.program.names.flatMap { $0.split(separator: " ").map(String.init) })
    }

    /// What a part of an English text is in the made language.
    static func text(_ part: String) -> String { PseudoLanguage.text(part).replacing(/^\[!!! | ~~~.*$/, with: "") }

    /// Looks for English words in what a command has shown.
    /// - Parameters:
    ///   - words: The command's words.
    ///   - typed: What a person has typed then, which the terminal may show.
    ///   - says: Whether the command says something besides values.
    func look(at shown: String, of words: [String], typed: [String] = [], says: Bool = true) {
        called.insert(program.name(calledBy: words))
        let line = words.joined(separator: " ")
        if says { #expect(shown.contains("[!!!"), "\(line): \(shown)") }
        // The words and ids that two people compare are no text.
        let text = shown.replacing(/\b[a-z]{5}(-[a-z]{5})+\b|\b([a-z2-7]{4} ){12}[a-z2-7]{4}\b/, with: "")
        let values = known.union(words).union(typed.flatMap { $0.split(separator: " ").map(String.init) })
        let forgotten = ForgottenWords.words(in: text, besides: values).filter { !Self.isID($0) }
        #expect(forgotten == [], "\(line): \(shown)")
    }

    private static let words = Set(
        Catalogue.templates(.german).keys.flatMap { $0.split { !$0.isLetter }.map { $0.lowercased() } }
    )

    /// Whether a word can be an id without a digit: one of a device or an endpoint as people see it, a token, a grant or a credential.
    private static func isID(_ word: String) -> Bool {
        guard !words.contains(word.lowercased()) else { return false }
        return word.wholeMatch(of: /[a-z]{8}|[a-z]{16}/) != nil || word.count == 12 && word.dropFirst().contains(where: \.isUppercase)
    }

    /// Each command of the program has run, so that a new one needs a line of its own.
    func expectAllCommands() {
        let missing = Set(program.doing).subtracting(called).sorted()
        #expect(missing == [], "add lines that run them")
    }
}

#if os(Linux)
/// A person at a terminal in the made language.
final class MadeDialogue {
    private let process: RelayProcess
    private let words: [String]
    private let language: MadeLanguage
    private var shown: [String] = []
    private var typed: [String] = []

    init(_ process: RelayProcess, _ words: [String], _ language: MadeLanguage) {
        (self.process, self.words, self.language) = (process, words, language)
    }

    /// Waits for a line that has a part of an English text.
    func sees(_ part: String) async throws { try await seesValue(MadeLanguage.text(part)) }

    /// Waits for a line that has a value.
    func seesValue(_ value: String) async throws { _ = try await next("\(value)") { $0.contains(value) } }

    /// Waits for a line that has a value of a form.
    func value(_ form: Regex<Substring>) async throws -> String {
        let line = try await next("such value") { $0.contains(form) }
        return String(try #require(line.firstMatch(of: form)).0)
    }

    private func next(_ what: String, _ isMeant: (String) -> Bool) async throws -> String {
        do {
            _ = try await process.line { [self] line in
                shown.append(Self.withoutControls(line))
                return isMeant(shown[shown.count - 1])
            }
        } catch {
            Issue.record("\(words): no \(what) in \(text)")
            throw error
        }
        return shown[shown.count - 1]
    }

    func types(_ line: String) throws {
        typed.append(line)
        try process.write(line + "\n")
    }

    /// Answers questions, in their order.
    func answers(_ answers: KeyValuePairs<String, String>) async throws {
        for (question, answer) in answers {
            try await sees(question)
            try types(answer)
        }
    }

    func interrupts() throws { try process.write("\u{3}") }

    /// Waits for the end, and looks for English words in all that was shown.
    @discardableResult
    func ends(_ status: Int32? = 0) async -> String {
        let rest = await process.finish()
        shown += (rest.output + rest.error).map(Self.withoutControls)
        if let status { #expect(rest.status == status, "\(words): \(text)") }
        language.look(at: text, of: words, typed: typed)
        return text
    }

    private var text: String { shown.joined(separator: "\n") }

    /// Without what controls a terminal, and the interrupt that it shows.
    private static func withoutControls(_ line: String) -> String { line.replacing(/\u{1B}\[[0-9;?]*[A-Za-z]|\r|\^C/, with: "") }
}
#endif
