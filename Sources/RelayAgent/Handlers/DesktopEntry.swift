// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// An application as its desktop entry describes it (Desktop Entry Specification 1.5).
struct DesktopEntry: Hashable, Sendable {
    private static let group = "Desktop Entry"
    /// In characters.
    private static let longestName = 64

    var name: String
    /// `nil` if it cannot be started with one URI: it is hidden, runs in a terminal, or has no line `Exec` with a place for the URI.
    var exec: ExecLine?
    /// A program that has to be there, too.
    var tryExec: String?
    var types: Set<String>

    /// - Parameters:
    ///   - path: Where the file is.
    ///   - locale: The locale of its name, such as `de_AT.UTF-8`.
    init(_ bytes: [UInt8], path: String, locale: String) {
        let file = KeyFile(bytes, groups: [Self.group])
        let keys = Self.names(of: locale)
        let text = keys.lazy.compactMap { file.text(Self.group, $0) }.first { !$0.isEmpty } ?? ""
        name = String(DisplayText.sanitized(text).prefix(Self.longestName))
        tryExec = file.text(Self.group, "TryExec").flatMap { $0.isEmpty ? nil : $0 }
        // A hidden entry counts as one that the user has deleted.
        let isUsable =
            file[Self.group, "Type"] == "Application" && !file.isTrue(Self.group, "Hidden") && !file.isTrue(Self.group, "Terminal")
        types = Set(file.list(Self.group, "MimeType"))
        let icon = file.text(Self.group, "Icon") ?? ""
        exec = isUsable ? file.text(Self.group, "Exec").flatMap { ExecLine($0, name: text, icon: icon, path: path) } : nil
    }

    /// The keys of the name, the best one first.
    static func names(of locale: String) -> [String] {
        // lang_COUNTRY.ENCODING@MODIFIER
        let parts = locale.utf8.split(separator: UInt8(ascii: "@"), maxSplits: 1)
        let modifier = parts.count == 2 ? "@\(Substring(parts[1]))" : ""
        let place = parts.first?.prefix { $0 != UInt8(ascii: ".") } ?? Substring().utf8
        let language = Substring(place.prefix { $0 != UInt8(ascii: "_") })
        let country = Substring(place.dropFirst(language.utf8.count))
        guard !language.isEmpty else { return ["Name"] }
        var keys: [String] = []
        for key in ["\(language)\(country)\(modifier)", "\(language)\(country)", "\(language)\(modifier)", "\(language)"]
        where !keys.contains("Name[\(key)]") { keys.append("Name[\(key)]") }
        return keys + ["Name"]
    }
}
