// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The texts of a program in one language. Within the programs, in JSON, in logs and between devices there is English alone; the last step
/// before a person translates it, by a catalogue of templates.
///
/// A text gets the translation of the template that is the whole of it, with the most bytes besides its values. The values are texts
/// themselves, and are translated alike, unless they stand in quotes or backticks: those are names and codes. A text without a template is
/// translated by its lines and parts. What has no translation stays English.
package struct Translation: Sendable {
    package static let english = Translation(templates: [:])

    /// Longer texts stay English. The longest is the help of a command, whose parts are shorter.
    static let maximumBytes = 16 << 10
    /// How deep values are within values.
    static let maximumDepth = 4
    /// How many parts a text without a template has. The rest is one part.
    static let maximumParts = 32
    /// How many parts are tried as one text, besides all that are left.
    static let maximumJoined = 8

    private struct Entry: Sendable {
        let english: String
        let template: Template
        let translation: [Template.Part]
    }

    /// The texts without places.
    private var texts: [String: String]
    /// The templates with places, those with the most literal bytes first.
    private var entries: [Entry]
    /// Those that a name could look like.
    private var vague: [Entry]

    /// - Parameters:
    ///   - templates: English templates with places `{1}`, `{2}`, …, and their translations. One whose translation has not the same places
    ///     is left out.
    ///   - yes: More answers that mean yes, in lower case.
    ///   - no: More answers that mean no, in lower case.
    package init(templates: [String: String], yes: Set<String> = [], no: Set<String> = []) {
        self.yes = yes.union(["y", "yes"])
        self.no = no.union(["n", "no"])
        var texts: [String: String] = [:]
        var entries: [Entry] = []
        for (english, translated) in templates {
            let (template, translation) = (Template(english), Template(translated))
            let places = template.places
            guard Set(places).count == places.count, places.sorted() == translation.places.sorted() else { continue }
            if places.isEmpty {
                texts[english] = translated
            } else {
                entries.append(Entry(english: english, template: template, translation: translation.parts))
            }
        }
        self.texts = texts
        let sorted = entries.sorted { ($1.template.literalCount, $0.english) < ($0.template.literalCount, $1.english) }
        self.entries = sorted.filter { !$0.template.isVague }
        vague = sorted.filter(\.template.isVague)
    }

    /// The answers that mean yes and no, in lower case: those of English, and the language's own ones.
    package let yes: Set<String>
    package let no: Set<String>

    package var isEnglish: Bool { texts.isEmpty && entries.isEmpty && vague.isEmpty }

    /// The same with a part of the templates.
    func only(_ templates: Set<String>) -> Translation {
        var translation = self
        translation.texts = texts.filter { templates.contains($0.key) }
        translation.entries = entries.filter { templates.contains($0.english) }
        translation.vague = []
        return translation
    }

    /// Translates a text.
    /// - Parameter english: A text of the program, perhaps with names and texts from outside in it.
    package func text(_ english: String) -> String {
        var steps = 0
        return text(english, steps: &steps)
    }

    /// - Parameter steps: Counts the bytes that were compared.
    func text(_ english: String, steps: inout Int) -> String {
        guard !isEnglish, !english.isEmpty, english.utf8.count <= Self.maximumBytes else { return english }
        return translated(Array(english.utf8)[...], depth: 0, &steps)
    }

    private func translated(_ bytes: ArraySlice<UInt8>, depth: Int, _ steps: inout Int) -> String {
        if let whole = whole(bytes, depth: depth, &steps) { return text(of: whole, depth: depth, &steps) }
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        guard lines.count > 1 else { return divided(bytes, depth: depth, &steps) }
        return lines.map { line in
            let whole = whole(line, depth: depth, &steps)
            return whole.map { text(of: $0, depth: depth, &steps) } ?? divided(line, depth: depth, &steps)
        }
        .joined(separator: "\n")
    }

    /// Translates a line that is no template. A vague template is the last choice, and none for a value.
    private func divided(_ bytes: ArraySlice<UInt8>, depth: Int, _ steps: inout Int) -> String {
        let english = plain(bytes)
        let result = parts(bytes, depth: depth, &steps)
        guard depth == 0, result == english else { return result }
        return match(vague, bytes, &steps).map { text(of: $0, depth: depth, &steps) } ?? english
    }

    // MARK: Templates

    /// What a text is as a whole.
    private struct Match {
        enum Kind {
            case text(String)
            case template(Entry, [Int: Template.Value])
        }

        let kind: Kind
        let bytes: ArraySlice<UInt8>
        /// The number of bytes that are not values.
        let literalCount: Int
        /// The text's own first letter, if the template has its other case.
        var letter: UInt8?
    }

    /// Returns what a text is as a whole, without a look at its values. A sentence may begin with what is the middle of one elsewhere, so
    /// the other case of its first letter is tried, too.
    private func whole(
        _ bytes: ArraySlice<UInt8>,
        beginning: Template.Beginning = .anything,
        depth: Int,
        _ steps: inout Int
    ) -> Match? {
        if let match = found(bytes, beginning, depth, &steps) { return match }
        guard let first = bytes.first, (0x61...0x7A).contains(first | 0x20) else { return nil }
        var other = bytes
        other[other.startIndex] = first ^ 0x20
        var match = found(other, beginning, depth, &steps)
        match?.letter = first
        return match
    }

    private func found(_ bytes: ArraySlice<UInt8>, _ beginning: Template.Beginning, _ depth: Int, _ steps: inout Int) -> Match? {
        if let text = texts[plain(bytes)] { return Match(kind: .text(text), bytes: bytes, literalCount: bytes.count) }
        guard depth < Self.maximumDepth else { return nil }
        return match(entries, bytes, beginning: beginning, &steps)
    }

    private func match(
        _ entries: [Entry],
        _ bytes: ArraySlice<UInt8>,
        beginning: Template.Beginning = .anything,
        _ steps: inout Int
    ) -> Match? {
        for entry in entries {
            guard let values = entry.template.values(of: bytes, beginning: beginning, &steps) else { continue }
            return Match(kind: .template(entry, values), bytes: bytes, literalCount: entry.template.literalCount)
        }
        return nil
    }

    /// The translation of a text and of its values.
    private func text(of match: Match, depth: Int, _ steps: inout Int) -> String {
        let text =
            switch match.kind {
            case .text(let text): text
            case .template(let entry, let values):
                entry.translation.map { part in
                    switch part {
                    case .literal(let literal): return String(decoding: literal, as: UTF8.self)
                    case .place(let number, _):
                        guard let value = values[number] else { return "" }
                        let bytes = match.bytes[value.range]
                        return value.isName ? plain(bytes) : self.value(bytes, depth, &steps)
                    }
                }
                .joined()
            }
        guard let letter = match.letter, let first = text.first else { return text }
        return (letter & 0x20 == 0 ? first.uppercased() : first.lowercased()) + text.dropFirst()
    }

    /// Translates a value. A text of another device stands in quotes that it cannot close.
    private func value(_ bytes: ArraySlice<UInt8>, _ depth: Int, _ steps: inout Int) -> String {
        let isQuoted = bytes.first == UInt8(ascii: "\"") && bytes.last == UInt8(ascii: "\"")
        return isQuoted ? plain(bytes) : translated(bytes, depth: depth + 1, &steps)
    }

    // MARK: Parts

    /// Translates a line by its parts: those that are one template together, with what separates them from those before, or without. The
    /// template with the most bytes counts.
    private func parts(_ bytes: ArraySlice<UInt8>, depth: Int, _ steps: inout Int) -> String {
        let parts = Separator.parts(bytes, maximum: Self.maximumParts, &steps)
        guard depth < Self.maximumDepth, parts.count > 1 || parts.first?.separator.isEmpty == false else { return plain(bytes) }
        var result = ""
        var index = 0
        while index < parts.count {
            let part = parts[index]
            var best: (end: Int, before: String, match: Match)?
            let ends = (index + 1...index + Self.maximumJoined).filter { $0 < parts.count }
            for end in [parts.count] + ends {
                guard let (before, match) = match(part, bytes[..<parts[end - 1].text.upperBound], depth: depth, &steps),
                    match.literalCount > best?.match.literalCount ?? 0
                else { continue }
                best = (end, before, match)
            }
            result +=
                best.map { $0.before + text(of: $0.match, depth: depth, &steps) } ?? separator(bytes[part.separator])
                + plain(bytes[part.text])
            index = best?.end ?? index + 1
        }
        return result
    }

    /// Returns what a line is from a part on, and what stands before that.
    private func match(_ part: Separator.Part, _ bytes: ArraySlice<UInt8>, depth: Int, _ steps: inout Int) -> (before: String, Match)? {
        let full = bytes[part.separator.lowerBound...]
        let spaces = full.prefix { $0 == UInt8(ascii: " ") }
        let beginning = part.separator.isEmpty ? Template.Beginning.onePart : .literal
        if let whole = whole(full, beginning: beginning, depth: depth, &steps) { return ("", whole) }
        if !spaces.isEmpty, spaces.count < part.separator.count,
            let whole = whole(full.dropFirst(spaces.count), beginning: .literal, depth: depth, &steps)
        {
            return (plain(spaces), whole)
        }
        guard !part.separator.isEmpty, let whole = whole(bytes[part.text.lowerBound...], beginning: .onePart, depth: depth, &steps) else {
            return nil
        }
        return (separator(bytes[part.separator]), whole)
    }

    private func separator(_ bytes: ArraySlice<UInt8>) -> String { texts[plain(bytes)] ?? plain(bytes) }

    private func plain(_ bytes: ArraySlice<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }
}
