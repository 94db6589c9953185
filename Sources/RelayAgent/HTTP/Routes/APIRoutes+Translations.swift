// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import Hummingbird
import ProgramTexts

/// The texts of answers in the language of a person. Answers are English for programs; the console asks for what it shows.
extension APIRoutes {
    var translationRoutes: [APIRoute] { [APIRoute(.post, "/v1/console/translations", .person, translate)] }

    private static let mostTexts = 100
    /// A longer text is no message of this program.
    private static let longestText = 2 << 10

    private struct Translated: Encodable {
        var texts: [String]
    }

    private func translate(_ exchange: APIExchange) async throws -> Response {
        let body = try await exchange.body(fields: ["language", "texts"])
        let texts: [String] = try body.required("texts")
        guard texts.count <= Self.mostTexts else {
            throw AgentError("invalidBody", "the body: there are at most \(Self.mostTexts) texts", .usage)
        }
        guard let language = PageLanguage(tag: try body.required("language")) else { return try exchange.json(Translated(texts: texts)) }
        var translated: [String] = []
        for text in texts {
            translated.append(text.utf8.count > Self.longestText ? text : await Catalogues.shared.text(text, in: language))
        }
        return try exchange.json(Translated(texts: translated))
    }
}

/// The catalogues that consoles have used. Each is read once, and one text is translated at a time: a long one of another device takes a while.
private actor Catalogues {
    static let shared = Catalogues()

    private var read: [PageLanguage: Translation] = [:]

    func text(_ text: String, in language: PageLanguage) -> String {
        let translation = read[language] ?? Translation(.language(language))
        read[language] = translation
        return translation.text(text)
    }
}
