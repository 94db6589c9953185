// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import CProgramTexts
package import ConsoleFiles
import Foundation
import Synchronization

/// The translations that are part of the program.
package enum Catalogue {
    /// Returns the translations of a language by their English templates; none for English.
    package static func templates(_ language: PageLanguage) -> [String: String] {
        let file: CProgramTexts? =
            switch language {
            case .german: cprogram_texts_de()
            case .french: cprogram_texts_fr()
            case .chinese: cprogram_texts_zh()
            case .english: nil
            }
        guard let file else { return [:] }
        let bytes = UnsafeBufferPointer(start: file.bytes, count: file.count)
        return (try? JSONDecoder().decode([String: String].self, from: Data(bytes))) ?? [:]
    }

    static func answers(_ language: PageLanguage) -> (yes: Set<String>, no: Set<String>) {
        switch language {
        case .german: (["j", "ja"], ["nein"])
        case .french: (["o", "oui"], ["non"])
        case .chinese: (["是"], ["否"])
        case .english: ([], [])
        }
    }
}

extension Translation {
    /// Reads the catalogue of a language. English has none.
    package init(_ language: ProgramLanguage) {
        switch language {
        case .language(let language):
            let answers = Catalogue.answers(language)
            self.init(templates: Catalogue.templates(language), yes: answers.yes, no: answers.no)
        case .pseudo: self.init(templates: PseudoLanguage.templates(Catalogue.templates(.german).keys))
        }
    }

    /// The translation for the person at the terminal. What programs read is English: JSON, the description of the commands, and the
    /// completions of a shell.
    package static let current: Translation = {
        let arguments = CommandLine.arguments.dropFirst().prefix { $0 != "--" }
        let isForPrograms = arguments.contains("--json") || arguments.contains("--experimental-dump-help")
        let isShell = ["bash", "zsh", "fish"].contains(arguments.dropFirst().first)
        let isForShell = arguments.first == "---completion" || arguments.first == "completions" && isShell
        if isForPrograms || isForShell { return .english }
        return Translation(ProgramLanguage(environment: ProcessInfo.processInfo.environment))
    }()
}

/// The helps of one command are needed many times, because its arguments are made anew each time that it is looked at.
private let helps = Mutex<[String: String]>([:])
private let maximumHelps = 4_096

/// Translates a text of the command line's help.
package func localized(_ english: String) -> String {
    let translation = Translation.current
    if translation.isEnglish { return english }
    if let known = helps.withLock({ $0[english] }) { return known }
    let text = translation.text(english)
    helps.withLock { if $0.count < maximumHelps { $0[english] = text } }
    return text
}
