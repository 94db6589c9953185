// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// A program that opens links, as the person sees it.
package struct LinkHandler: Codable, Hashable, Sendable {
    /// The id of its desktop entry, such as `org.mozilla.firefox.desktop`.
    package var id: String
    package var name: String
}

/// A program that opens links, and how it is started.
struct InstalledHandler: Hashable, Sendable {
    var link: LinkHandler
    var exec: ExecLine

    func program(with uri: LaunchURI) -> Program { Program(arguments: exec.arguments(with: uri)) }
}

/// Which installed program opens which scheme, by the rules of the desktop (MIME Applications Associations 1.0.1). It is made of texts
/// that have been read before.
struct InstalledHandlers: Sendable {
    /// One folder of those that are searched.
    struct Level: Sendable {
        /// The files `DESKTOP-mimeapps.list`, which name defaults only.
        var desktopLists: [KeyFile] = []
        /// The file `mimeapps.list`, which also adds and removes.
        var list: KeyFile?
        /// All of them, in their order.
        var lists: [KeyFile] { desktopLists + [list].compactMap(\.self) }
        var entries: [String: DesktopEntry] = [:]
    }

    static let (defaults, added, removed) = ("Default Applications", "Added Associations", "Removed Associations")
    private static let prefix = "x-scheme-handler/"
    /// The most programs for one scheme.
    static let most = 16

    private let levels: [Level]
    /// Each entry by its id. An entry of an earlier level hides the later ones.
    private let handlers: [String: InstalledHandler]

    /// - Parameters:
    ///   - levels: The most important one first.
    ///   - isThere: Whether a program can be executed now.
    init(_ levels: [Level], isThere: (String) -> Bool) {
        self.levels = levels
        var entries: [String: DesktopEntry] = [:]
        for level in levels { entries.merge(level.entries) { first, _ in first } }
        var handlers: [String: InstalledHandler] = [:]
        for (id, entry) in entries {
            guard let exec = entry.exec, HandlerRules.mayStart(exec), isThere(exec.program), entry.tryExec.map(isThere) ?? true
            else { continue }
            handlers[id] = InstalledHandler(link: LinkHandler(id: id, name: entry.name.isEmpty ? id : entry.name), exec: exec)
        }
        self.handlers = handlers
    }

    /// The programs for a scheme: the default first.
    func handlers(for scheme: String) -> [InstalledHandler] {
        let type = Self.prefix + scheme
        var chosen: String?
        var ids: [String] = []
        /// What earlier levels have removed, and what they have entries of: later levels say nothing about these.
        var (gone, out): (Set<String>, Set<String>) = ([], [])
        for level in levels {
            let removed = level.list?.list(Self.removed, type) ?? []
            gone.formUnion(removed)
            // As for GLib and xdg-utils, a default needs no association.
            chosen = chosen ?? level.lists.flatMap { $0.list(Self.defaults, type) }.first { handlers[$0] != nil && !gone.contains($0) }
            ids += (level.list?.list(Self.added, type) ?? []).filter { !out.contains($0) }
            out.formUnion(removed)
            ids += level.entries.filter { $0.value.types.contains(type) && !out.contains($0.key) }.keys.sorted()
            out.formUnion(level.entries.keys)
        }
        var seen: Set<String> = []
        let all = ([chosen].compactMap(\.self) + ids).filter { seen.insert($0).inserted }.compactMap { handlers[$0] }
        return Array(all.prefix(Self.most))
    }

    /// The schemes that a program opens, those that the person has set first.
    var schemes: [String] {
        var seen: Set<String> = []
        return levels.flatMap { level -> [String] in
            var types = level.entries.values.reduce(into: Set<String>()) { $0.formUnion($1.types) }
            for list in level.lists { for group in [Self.defaults, Self.added] { types.formUnion((list.groups[group] ?? [:]).keys) } }
            return types.filter { $0.utf8.starts(with: Self.prefix.utf8) }
                .map { String(decoding: $0.utf8.dropFirst(Self.prefix.utf8.count), as: UTF8.self) }
                .filter { LaunchURI.isScheme($0) }.sorted()
        }.filter { seen.insert($0).inserted && !handlers(for: $0).isEmpty }
    }
}
