// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import Hummingbird
import ProgramTexts
import Synchronization

/// The texts of answers in the language of a person. Answers are English for programs; the console asks for what it shows.
extension APIRoutes {
    var translationRoutes: [APIRoute] { [APIRoute(.post, "/v1/console/translations", .person, translate)] }

    private static let mostTexts = 100

    private struct Translated: Encodable {
        var texts: [String]
    }

    private func translate(_ exchange: APIExchange) async throws -> Response {
        let body = try await exchange.body(fields: ["language", "texts"])
        let texts: [String] = try body.required("texts")
        guard texts.count <= Self.mostTexts else {
            throw AgentError("invalidBody", "the body: there are at most \(Self.mostTexts) texts", .usage)
        }
        let translation = PageLanguage(tag: try body.required("language")).map(Catalogues.shared.translation) ?? .english
        return try exchange.json(Translated(texts: texts.map(translation.text)))
    }
}

/// The catalogues that consoles have used. Each is read once.
private final class Catalogues: Sendable {
    static let shared = Catalogues()

    private let read = Mutex<[PageLanguage: Translation]>([:])

    func translation(_ language: PageLanguage) -> Translation {
        read.withLock { read in
            let known = read[language] ?? Translation(.language(language))
            read[language] = known
            return known
        }
    }
}
