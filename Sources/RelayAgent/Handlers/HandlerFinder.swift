// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayStorage

/// Reads which programs of this machine open links.
///
/// It reads the files of the desktop itself. `xdg-mime` is a shell script that asks a desktop for one default, and knows neither the other
/// programs nor their names.
struct HandlerFinder: Sendable {
    private static let largestFile = 256 << 10
    /// What is beyond these is not read.
    private static let mostFolders = 64
    private static let mostEntries = 4_000
    private static let deepest = 3

    /// `HOME`, `PATH`, the locale, and the variables of the desktop.
    let environment: [String: String]

    /// `nil` where links are not opened by desktop entries, or nothing can be shown.
    static var system: HandlerFinder? {
        #if canImport(Darwin)
        // LaunchServices knows the programs, and `open` asks it.
        nil
        #else
        URIOpener.hasDisplay ? HandlerFinder(environment: ProcessInfo.processInfo.environment) : nil
        #endif
    }

    /// Reads them now.
    func installed() -> InstalledHandlers {
        let desktops = desktops
        var left = Self.mostEntries
        let levels = folders.map { folder in
            var level = InstalledHandlers.Level()
            level.desktopLists = desktops.compactMap { list("\(folder.path)/\($0)-mimeapps.list") }
            level.list = list(folder.path + "/mimeapps.list")
            if folder.hasEntries { read(folder.path, prefix: "", depth: 0, &left, into: &level.entries) }
            return level
        }
        return InstalledHandlers(levels) { Program(arguments: [$0]).isThere(path: environment["PATH"] ?? "") }
    }

    // MARK: Places

    /// The folders, the most important one first.
    private var folders: [(path: String, hasEntries: Bool)] {
        let home = HomeDirectory.path(environment: environment)
        let configuration = paths("XDG_CONFIG_HOME", home.map { $0 + "/.config" }) + paths("XDG_CONFIG_DIRS", "/etc/xdg")
        let data = paths("XDG_DATA_HOME", home.map { $0 + "/.local/share" }) + paths("XDG_DATA_DIRS", "/usr/local/share:/usr/share")
        return Array((configuration.map { ($0, false) } + data.map { ($0 + "/applications", true) }).prefix(Self.mostFolders))
    }

    /// The absolute paths of a variable.
    private func paths(_ variable: String, _ standard: String?) -> [String] {
        let text = environment[variable].flatMap { $0.isEmpty ? nil : $0 } ?? standard ?? ""
        return text.utf8.split(separator: UInt8(ascii: ":")).filter { $0.first == UInt8(ascii: "/") }
            .map { String(decoding: $0, as: UTF8.self) }
    }

    /// The names of the desktop, which are parts of file names.
    private var desktops: [String] {
        (environment["XDG_CURRENT_DESKTOP"] ?? "").utf8.split(separator: UInt8(ascii: ":")).prefix(8)
            .filter { $0.allSatisfy { $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: "/") } }
            .map { String(decoding: $0, as: UTF8.self).lowercased() }
    }

    private var locale: String {
        ["LC_ALL", "LC_MESSAGES", "LANG"].lazy.compactMap { environment[$0] }.first { !$0.isEmpty } ?? ""
    }

    // MARK: Files

    private func list(_ path: String) -> KeyFile? {
        BoundedFile.contents(at: path, largest: Self.largestFile).map {
            KeyFile($0, groups: [InstalledHandlers.defaults, InstalledHandlers.added, InstalledHandlers.removed])
        }
    }

    /// The entries of a folder and the folders in it. The id of one in `kde/` begins with `kde-`.
    private func read(_ folder: String, prefix: String, depth: Int, _ left: inout Int, into entries: inout [String: DesktopEntry]) {
        for name in ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).sorted() {
            guard left > 0 else { return }
            let (path, id) = ("\(folder)/\(name)", prefix + name)
            // An id is in lists between semicolons.
            guard id.utf8.count <= 255, id.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: ";") }) else { continue }
            if name.utf8.suffix(8).elementsEqual(".desktop".utf8) {
                left -= 1
                // The first one of two with the same id counts, and one that cannot be read hides those of later folders, too.
                guard entries[id] == nil else { continue }
                let bytes = BoundedFile.contents(at: path, largest: Self.largestFile)
                entries[id] = DesktopEntry(bytes ?? [], path: path, locale: locale)
            } else if depth < Self.deepest, FileFacts(path: path, followsLinks: true)?.isFolder == true {
                left -= 1
                read(path, prefix: id + "-", depth: depth + 1, &left, into: &entries)
            }
        }
    }
}
