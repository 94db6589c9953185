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
        if let whole = whole(bytes, depth: depth, &steps) { return whole.text }
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        guard lines.count == 1 else {
            return lines.map { whole($0, depth: depth, &steps)?.text ?? divided($0, depth: depth, &steps) }.joined(separator: "\n")
        }
        return divided(bytes, depth: depth, &steps)
    }

    /// Translates a line that is no template. A vague template is the last choice, and none for a value.
    private func divided(_ bytes: ArraySlice<UInt8>, depth: Int, _ steps: inout Int) -> String {
        let english = plain(bytes)
        let result = parts(bytes, depth: depth, &steps)
        guard depth == 0, result == english else { return result }
        return filled(vague, bytes, depth: depth, &steps)?.text ?? english
    }

    /// A translation, and how many bytes of the English text are not values.
    private struct Match {
        var text: String
        var literalCount: Int
    }

    /// Returns the translation of a text that is a template as a whole. A sentence may begin with what is the middle of one elsewhere, so
    /// the other case of its first letter is tried, too.
    private func whole(_ bytes: ArraySlice<UInt8>, beginning: Template.Beginning = .anything, depth: Int, _ steps: inout Int) -> Match? {
        if let result = found(bytes, beginning, depth, &steps) { return result }
        guard let first = bytes.first, (0x61...0x7A).contains(first | 0x20) else { return nil }
        var other = bytes
        other[other.startIndex] = first ^ 0x20
        guard var result = found(other, beginning, depth, &steps), let letter = result.text.first else { return nil }
        result.text = (first & 0x20 == 0 ? letter.uppercased() : letter.lowercased()) + result.text.dropFirst()
        return result
    }

    private func found(_ bytes: ArraySlice<UInt8>, _ beginning: Template.Beginning, _ depth: Int, _ steps: inout Int) -> Match? {
        if let text = texts[String(decoding: bytes, as: UTF8.self)] { return Match(text: text, literalCount: bytes.count) }
        guard depth < Self.maximumDepth else { return nil }
        return filled(entries, bytes, beginning: beginning, depth: depth, &steps)
    }

    private func filled(
        _ entries: [Entry],
        _ bytes: ArraySlice<UInt8>,
        beginning: Template.Beginning = .anything,
        depth: Int,
        _ steps: inout Int
    ) -> Match? {
        for entry in entries {
            guard let values = entry.template.values(of: bytes, beginning: beginning, &steps) else { continue }
            let text = entry.translation.map { part in
                switch part {
                case .literal(let literal): return String(decoding: literal, as: UTF8.self)
                case .place(let number, _):
                    guard let value = values[number] else { return "" }
                    return value.isName
                        ? String(decoding: bytes[value.range], as: UTF8.self) : self.value(bytes[value.range], depth, &steps)
                }
            }
            .joined()
            return Match(text: text, literalCount: entry.template.literalCount)
        }
        return nil
    }

    /// Translates a value. A text of another device stands in quotes that it cannot close.
    private func value(_ bytes: ArraySlice<UInt8>, _ depth: Int, _ steps: inout Int) -> String {
        let isQuoted = bytes.first == UInt8(ascii: "\"") && bytes.last == UInt8(ascii: "\"")
        return isQuoted ? String(decoding: bytes, as: UTF8.self) : translated(bytes, depth: depth + 1, &steps)
    }

    /// Translates a line by its parts: those that are one template together, with what separates them from those before, or without. The
    /// template with the most bytes counts.
    private func parts(_ bytes: ArraySlice<UInt8>, depth: Int, _ steps: inout Int) -> String {
        let parts = Separator.parts(bytes, maximum: Self.maximumParts, &steps)
        guard depth < Self.maximumDepth, parts.count > 1 || parts.first?.separator.isEmpty == false else { return plain(bytes) }
        var result = ""
        var index = 0
        while index < parts.count {
            let part = parts[index]
            var best: (end: Int, match: Match)?
            let ends = (index + 1...index + Self.maximumJoined).filter { $0 < parts.count }
            for end in [parts.count] + ends {
                let match = match(part, bytes[..<parts[end - 1].text.upperBound], depth: depth, &steps)
                if let match, match.literalCount > best?.match.literalCount ?? 0 { best = (end, match) }
            }
            result += best?.match.text ?? separator(bytes[part.separator]) + plain(bytes[part.text])
            index = best?.end ?? index + 1
        }
        return result
    }

    /// Returns the translation of a line from a part on, if that is a template.
    private func match(_ part: Separator.Part, _ bytes: ArraySlice<UInt8>, depth: Int, _ steps: inout Int) -> Match? {
        let full = bytes[part.separator.lowerBound...]
        let spaces = full.prefix { $0 == UInt8(ascii: " ") }
        if let whole = whole(full, beginning: part.separator.isEmpty ? .onePart : .literal, depth: depth, &steps) { return whole }
        if !spaces.isEmpty, spaces.count < part.separator.count,
            let whole = whole(full.dropFirst(spaces.count), beginning: .literal, depth: depth, &steps)
        {
            return Match(text: plain(spaces) + whole.text, literalCount: whole.literalCount)
        }
        guard !part.separator.isEmpty, let whole = whole(bytes[part.text.lowerBound...], beginning: .onePart, depth: depth, &steps) else {
            return nil
        }
        return Match(text: separator(bytes[part.separator]) + whole.text, literalCount: whole.literalCount)
    }

    private func separator(_ bytes: ArraySlice<UInt8>) -> String { texts[plain(bytes)] ?? plain(bytes) }

    private func plain(_ bytes: ArraySlice<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }
}
