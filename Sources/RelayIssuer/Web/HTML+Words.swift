// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles

extension PageWords {
    /// Returns the words of a key for a page.
    /// - Parameters:
    ///   - values: What stands in the places of the text.
    ///   - count: The number of which the text tells, in the place `count`. It chooses the form of the text.
    func html(_ key: String, _ values: KeyValuePairs<String, HTML> = [:], count: Int? = nil) -> HTML {
        var all = Dictionary(values.map { ($0.key, $0.value.text) }) { first, _ in first }
        all["count"] = count.map(String.init)
        return HTML(
            verbatim: parts(key, count: count).map { part in
                switch part {
                case .words(let words): HTML.escape(words)
                case .value(let name): all[name] ?? ""
                }
            }
            .joined()
        )
    }

    func html(_ text: PageText) -> HTML { "\(self.text(text.key, text.values))" }

    /// Returns what a page shows for the id of a client: the name that it gives itself, if it has one.
    func app(_ id: String) -> HTML {
        let name = RegisteredClient.name(of: id)
        return name.isEmpty ? html("app.unnamed") : "\(name)"
    }

    /// Returns a kind of device in words. A kind of a newer version is shown as it is.
    func kind(_ kind: String) -> HTML { has("kind.\(kind)") ? html("kind.\(kind)") : "\(kind)" }

    /// What scopes allow, as a list.
    func list(_ scopes: Scopes) -> HTML {
        let items = scopes.names.map { has("scope.\($0)") ? html("scope.\($0)") : "\($0)" as HTML }
        return "<ul>\(items.map { "<li>\($0)</li>" as HTML })</ul>"
    }

    func joined(_ parts: [HTML]) -> HTML {
        HTML(verbatim: parts.map(\.text).joined(separator: html("list.separator").text))
    }
}

extension HTML {
    /// What only programs and their authors are told, which is always English.
    static func english(_ text: String) -> HTML { "<span lang=\"en\">\(text)</span>" }
}

extension Visit {
    /// Returns the words of a key in the person's language.
    func t(_ key: String, _ values: KeyValuePairs<String, HTML> = [:], count: Int? = nil) -> HTML {
        words.html(key, values, count: count)
    }
}
