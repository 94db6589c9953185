// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

@testable import RelayAgent

/// Which program opens a scheme, with real files.
@Suite struct InstalledHandlersTests {
    /// Folders of a desktop, and programs in a `PATH` of their own.
    private final class Desktop {
        let root = FileManager.default.temporaryDirectory.appending(path: "desktop-\(UUID().uuidString)").path
        var variables: [String: String]

        init() throws {
            variables = [
                "HOME": root, "PATH": root + "/bin", "XDG_DATA_DIRS": "\(root)/local:\(root)/usr", "XDG_CONFIG_DIRS": root + "/etc",
                "XDG_CURRENT_DESKTOP": "Test:GNOME",
            ]
            for name in ["app", "other", "sh", "env"] { try write("bin/" + name, "", mode: 0o755) }
        }

        deinit { try? FileManager.default.removeItem(atPath: root) }

        func write(_ path: String, _ text: String, mode: Int = 0o644) throws {
            let file = URL(filePath: "\(root)/\(path)")
            try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data(text.utf8).write(to: file)
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file.path)
        }

        func entry(_ path: String, _ types: String = "x-scheme-handler/x-a", exec: String = "app %u", more: String = "") throws {
            let name = URL(filePath: path).deletingPathExtension().lastPathComponent
            try write(path, "[Desktop Entry]\nType=Application\nName=\(name)\nExec=\(exec)\nMimeType=\(types);\n\(more)\n")
        }

        func lists(_ path: String, defaults: String = "", added: String = "", removed: String = "") throws {
            func group(_ name: String, _ ids: String) -> String { ids.isEmpty ? "" : "[\(name)]\nx-scheme-handler/x-a=\(ids)\n" }
            let text = group("Default Applications", defaults) + group("Added Associations", added) + group("Removed Associations", removed)
            try write(path, text)
        }

        var installed: InstalledHandlers { HandlerFinder(environment: variables).installed() }
        var ids: [String] { installed.handlers(for: "x-a").map(\.link.id) }
    }

    private static let (home, local, usr) = (".local/share/applications", "local/applications", "usr/applications")

    /// Each list in its turn, from the least to the most important one.
    @Test func defaultIsThatOfTheFirstList() throws {
        let desktop = try Desktop()
        let places = [
            "\(Self.usr)/mimeapps.list", "\(Self.usr)/gnome-mimeapps.list", "\(Self.usr)/test-mimeapps.list", "\(Self.local)/mimeapps.list",
            "\(Self.home)/mimeapps.list", "\(Self.home)/gnome-mimeapps.list", "etc/mimeapps.list", "etc/test-mimeapps.list",
            ".config/mimeapps.list", ".config/gnome-mimeapps.list", ".config/test-mimeapps.list",
        ]
        for number in places.indices { try desktop.entry("\(Self.usr)/p\(number + 10).desktop") }
        #expect(desktop.ids.first == "p10.desktop", "without lists the first one by its id")
        for (number, place) in places.enumerated().dropFirst() {
            try desktop.lists(place, defaults: "missing.desktop;p\(number + 10).desktop;p10.desktop")
            #expect(desktop.ids.first == "p\(number + 10).desktop", "\(place)")
            #expect(Set(desktop.ids).count == places.count)
        }
        // Another desktop reads the lists for all.
        desktop.variables["XDG_CURRENT_DESKTOP"] = "../../etc"
        #expect(desktop.ids.first == "p18.desktop")
        desktop.variables["XDG_CONFIG_HOME"] = "relative"
        desktop.variables["XDG_CONFIG_DIRS"] = ":relative::"
        #expect(desktop.ids.first == "p14.desktop")
    }

    @Test func associationsAreAddedAndRemoved() throws {
        let desktop = try Desktop()
        for name in ["a", "b", "c"] { try desktop.entry("\(Self.usr)/\(name).desktop") }
        try desktop.entry("\(Self.usr)/none.desktop", "text/plain")
        #expect(desktop.ids == ["a.desktop", "b.desktop", "c.desktop"])
        try desktop.lists(".config/mimeapps.list", added: "c.desktop;none.desktop", removed: "a.desktop;")
        #expect(desktop.ids == ["c.desktop", "none.desktop", "b.desktop"])
        try desktop.lists("\(Self.usr)/mimeapps.list", defaults: "a.desktop;b.desktop", added: "a.desktop")
        #expect(desktop.ids == ["b.desktop", "c.desktop", "none.desktop"], "what is removed is no default below")
        // A list of one desktop neither adds nor removes.
        try desktop.lists(".config/gnome-mimeapps.list", added: "a.desktop", removed: "b.desktop;c.desktop;none.desktop")
        #expect(desktop.ids == ["b.desktop", "c.desktop", "none.desktop"])
        // What is said about an entry that an earlier folder has is hidden.
        try desktop.entry("\(Self.home)/d.desktop", "text/plain")
        try desktop.lists("\(Self.usr)/mimeapps.list", added: "d.desktop")
        #expect(desktop.ids == ["c.desktop", "none.desktop", "b.desktop"])
        // A default needs no association.
        try desktop.lists("\(Self.usr)/mimeapps.list", defaults: "d.desktop")
        #expect(desktop.ids == ["d.desktop", "c.desktop", "none.desktop", "b.desktop"])
    }

    @Test func earlierFolderHidesAnEntry() throws {
        let desktop = try Desktop()
        try desktop.entry("\(Self.usr)/a.desktop")
        try desktop.entry("\(Self.local)/a.desktop", exec: "other %u")
        #expect(desktop.installed.handlers(for: "x-a").map(\.exec.program) == ["other"])
        // Deleted by the person, unreadable, or for other types: the program is gone.
        try desktop.entry("\(Self.home)/a.desktop", more: "Hidden=true")
        #expect(desktop.ids == [])
        try desktop.write("\(Self.home)/a.desktop", String(repeating: "#", count: 300_000))
        #expect(desktop.ids == [])
        try desktop.entry("\(Self.home)/a.desktop", "text/plain")
        #expect(desktop.ids == [])
    }

    @Test func programsThatAreNotThereOrWouldRunMoreAreLeftOut() throws {
        let desktop = try Desktop()
        for (number, exec) in [
            "missing %u", "/no/such/app %u", "sh -c 'app \"$0\"' %u", "env A=b sh %u", "/bin/bash %u", "app --command=/bin/sh %u",
            "python3 -c 'import x' %u", "perl -e 1 %u", "xterm -e app %u", "pkexec app %u", "app", "app %f", "./app %u", "sh %u",
        ].enumerated() { try desktop.entry("\(Self.usr)/bad\(number).desktop", exec: exec) }
        try desktop.entry("\(Self.usr)/try.desktop", more: "TryExec=missing")
        try desktop.entry("\(Self.usr)/terminal.desktop", more: "Terminal=true")
        #expect(desktop.ids == [])
        try desktop.entry("\(Self.usr)/try.desktop", more: "TryExec=\(desktop.root)/bin/other\nNoDisplay=true")
        try desktop.entry("\(Self.usr)/env.desktop", exec: "env A=b app %u")
        try desktop.entry("\(Self.usr)/kde/sub/x.desktop")
        #expect(desktop.ids == ["env.desktop", "kde-sub-x.desktop", "try.desktop"])
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: desktop.root + "/bin/app")
        #expect(desktop.ids == ["env.desktop"], "only the first program of a line is looked for")
    }

    /// A pipe, a socket, a loop of links, a huge file and strange names neither block nor end the reading.
    @Test func hostileFoldersAreRead() throws {
        let desktop = try Desktop()
        let folder = "\(desktop.root)/\(Self.home)"
        try desktop.entry("\(Self.home)/good.desktop")
        try #require(mkfifo(folder + "/pipe.desktop", 0o600) == 0 && mkfifo(folder + "/mimeapps.list", 0o600) == 0)
        try #require(symlink(folder, folder + "/loop") == 0 && symlink("nowhere", folder + "/gone.desktop") == 0)
        try #require(symlink("/dev/zero", folder + "/zero.desktop") == 0 && symlink("good.desktop", folder + "/link.desktop") == 0)
        try FileManager.default.createDirectory(atPath: folder + "/folder.desktop", withIntermediateDirectories: true)
        for name in ["a;b.desktop", "ä.desktop", " .desktop", String(repeating: "n", count: 240) + ".desktop", "\n.desktop"] {
            try desktop.entry("\(Self.home)/\(name)")
        }
        let ids = desktop.ids
        #expect(ids.contains("good.desktop") && ids.contains("link.desktop") && ids.contains("loop-good.desktop"))
        #expect(ids.count <= InstalledHandlers.most && !ids.contains("a;b.desktop"))
        // More programs than a person can choose from.
        for number in 0..<40 { try desktop.entry("\(Self.home)/many\(number).desktop") }
        #expect(desktop.ids.count == InstalledHandlers.most)
        desktop.variables["XDG_DATA_DIRS"] = String(repeating: desktop.root + "/usr:", count: 10_000)
        #expect(desktop.ids.count == InstalledHandlers.most)
    }

    @Test func schemesAreThoseWithAProgram() throws {
        let desktop = try Desktop()
        try desktop.entry("\(Self.usr)/b.desktop", "x-scheme-handler/z;text/html;x-scheme-handler/a;x-scheme-handler/a b;x-scheme-handler/")
        try desktop.entry("\(Self.usr)/c.desktop", "x-scheme-handler/gone;x-scheme-handler/A;x-scheme-handler/ä", exec: "missing %u")
        try desktop.write(
            ".config/mimeapps.list",
            "[Default Applications]\nx-scheme-handler/chosen=b.desktop\nx-scheme-handler/lost=lost.desktop\n[Added Associations]\nx-scheme-handler/z=b.desktop\n"
        )
        // Those that the person has set come first.
        #expect(desktop.installed.schemes == ["chosen", "z", "a"])
    }

    @Test func listsAreReadWhateverTheyAre() throws {
        let desktop = try Desktop()
        try desktop.entry("\(Self.usr)/a.desktop")
        let seed = UInt64.random(in: 0..<1_000_000)
        var random = SeededGenerator(seed: seed)
        let pieces = [
            "[Default Applications]\n", "[Added Associations]\n", "[Removed Associations]\n", "x-scheme-handler/x-a=", "a.desktop", ";",
            "\\", "\n", "=", "[", "\u{301}", "../../etc/passwd", "/", "\0",
        ]
        for number in 0..<200 {
            let text = (0..<Int.random(in: 0...30, using: &random)).map { _ in pieces.randomElement(using: &random) ?? "" }.joined()
            try desktop.write(".config/mimeapps.list", text)
            #expect(desktop.ids == ["a.desktop"] || desktop.ids == [], "seed \(seed), \(number)")
        }
    }

    @Test func dangerousSchemesAreNotOffered() {
        for scheme in ["file", "javascript", "vbscript", "data", "ssh", "telnet", "http", "https", "apt", "man", "smb", "view-source"] {
            #expect(!HandlerRules.mayOffer(scheme), "\(scheme)")
        }
        for scheme in ["mailto", "tel", "magnet", "tg", "x-note", "geo"] { #expect(HandlerRules.mayOffer(scheme), "\(scheme)") }
    }
}
