// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

@testable import RelayAgent

/// Desktop entries as programs install them, and as nobody should write them.
@Suite struct DesktopEntryTests {
    private func exec(_ line: String) -> ExecLine? { ExecLine(line, name: "Näme", icon: "icon", path: "/a/b.desktop") }

    private func arguments(_ line: String, _ uri: String) throws -> [String]? { exec(line)?.arguments(with: try LaunchURI(uri)) }

    /// Lines of programs that people have, and the examples of the specification.
    @Test(arguments: [
        ("/usr/bin/chromium %U", ["/usr/bin/chromium", "@"]),
        ("telegram-desktop -- %u", ["telegram-desktop", "--", "@"]),
        (
            "/usr/bin/flatpak run --branch=stable --command=zoom --file-forwarding us.zoom.Zoom @@u %u @@",
            ["/usr/bin/flatpak", "run", "--branch=stable", "--command=zoom", "--file-forwarding", "us.zoom.Zoom", "@@u", "@", "@@"]
        ),
        (
            "env BAMF_DESKTOP_FILE_HINT=/var/x.desktop /snap/bin/spotify %U",
            ["env", "BAMF_DESKTOP_FILE_HINT=/var/x.desktop", "/snap/bin/spotify", "@"]
        ),
        (#""/opt/My App/app" "%u""#, ["/opt/My App/app", "@"]), ("app --uri=%u", ["app", "--uri=@"]), ("app '%u'", ["app", "@"]),
        (#"app "a \" \` \$ \\ b" 'c "d' e\ f %u"#, ["app", "a \" ` $ \\ b", "c \"d", "e f", "@"]),
        ("app %i %c %k %% 100%% %f %d %u", ["app", "--icon", "icon", "Näme", "/a/b.desktop", "%", "100%", "@"]),
        ("app\t\t\"\"  ä  %u  ", ["app", "", "ä", "@"]), (#"app "\n" a"b"c %u"#, ["app", "\\n", "abc", "@"]),
    ]) func lineIsAVector(line: String, expected: [String]) throws {
        let uri = "x-a:%u?%22'$(id)&;%25%U"
        #expect(try arguments(line, uri) == expected.map { $0 == "@" || $0 == "--uri=@" ? $0.replacing("@", with: uri) : $0 })
    }

    /// No place for the URI, several, or one where it would become a part of something else.
    @Test(arguments: [
        "", " ", "app", "app %f", "app %F", "%u", "%u app", "app %u %u", "app %u %U", "app a%u", "app --uri=%ub", "app --uri=%U",
        "app %x %u",
        "app % %u", "app %u %", "app \"%u", "app '%u", #"app %u \"#, #""app %u"#, #"sh -c "app %u""#, "./app %u", "bin/app %u", "A=b %u",
        "app\0 %u", "ap%%p %u", "\"\" %u", "app " + String(repeating: "a ", count: 100) + "%u",
    ]) func lineWithoutOnePlaceIsRefused(line: String) { #expect(exec(line) == nil, "\(line)") }

    /// Whatever the line and the URI are: the URI is one argument or the end of one, and everything else is as without it.
    @Test func uriIsOneArgument() throws {
        let seed = UInt64.random(in: 0..<1_000_000)
        var random = SeededGenerator(seed: seed)
        var uris = URIGenerator(seed: seed)
        let pieces = [
            "%u", "%U", "%%", "%c", "%k", "%i", "%f", "%", "\"", "'", "\\", " ", "\t", "=", "a", "ä", "-", ";", "$", "`", "--x=%u", "{uri}",
        ]
        let places = [" %u ", " --uri=%u ", " \"%U\" "]
        var (taken, uri) = (0, try LaunchURI("x-a:1"))
        for number in 0..<20_000 {
            var line = "app "
            for _ in 0..<Int.random(in: 0...8, using: &random) { line += pieces.randomElement(using: &random) ?? "" }
            // Most of those without a whole place are refused.
            if Bool.random(using: &random) { line += places.randomElement(using: &random) ?? "" }
            if number % 20 == 0, let next = try? LaunchURI(uris.next()) { uri = next }
            guard let exec = exec(line) else { continue }
            taken += 1
            let (one, other) = (exec.arguments(with: uri), exec.arguments(with: try LaunchURI("zz:placeholder")))
            let changed = one.indices.filter { one[$0] != other[$0] }
            #expect(one.count == other.count && changed.count <= 1, "seed \(seed), \(number): \(line)")
            #expect(other.count { $0.utf8.suffix(14).elementsEqual("zz:placeholder".utf8) } == 1, "seed \(seed), \(number): \(line)")
            for place in changed {
                #expect(one[place].utf8.suffix(uri.text.utf8.count).elementsEqual(uri.text.utf8), "seed \(seed), \(number)")
            }
            #expect(one.first.map { !$0.isEmpty && $0 != uri.text } == true, "the URI is never the program: seed \(seed), \(number)")
        }
        #expect(taken > 500)
    }

    /// What is quoted by the rules of the specification is read as it was.
    @Test func quotedArgumentsComeBack() {
        let seed = UInt64.random(in: 0..<1_000_000)
        var random = SeededGenerator(seed: seed)
        let letters = Array(" \t\"'\\><~|&;$*?#()`%=aé{}\u{301}").map(String.init)
        for number in 0..<2_000 {
            let words = (0..<Int.random(in: 1...6, using: &random)).map { _ in
                (0..<Int.random(in: 0...6, using: &random)).map { _ in letters.randomElement(using: &random) ?? "" }.joined()
            }
            let quoted = words.map { word in
                "\"" + word.unicodeScalars.map { "\"`$\\".unicodeScalars.contains($0) ? "\\\($0)" : "\($0)" }.joined() + "\""
            }
            let read = ExecLine.words(quoted.joined(separator: " ")) ?? []
            #expect(read.count == words.count && zip(read, words).allSatisfy { $0.utf8.elementsEqual($1.utf8) }, "seed \(seed), \(number)")
        }
    }

    // MARK: Files

    private func entry(_ text: String, locale: String = "") -> DesktopEntry {
        DesktopEntry(Array(text.utf8), path: "/x.desktop", locale: locale)
    }

    private static let usual =
        "[Desktop Entry]\nType=Application\nName=App\nExec=app %u\nMimeType=x-scheme-handler/x-a;x-scheme-handler/x-b;\n"

    @Test func entryIsRead() {
        let read = entry("# a comment\n\n" + Self.usual + "Name[de]=Äpp\n[Desktop Action new]\nName=Other\nExec=other %u\nTerminal=true\n")
        #expect(read.name == "App" && read.exec?.texts == ["app"] && read.types == ["x-scheme-handler/x-a", "x-scheme-handler/x-b"])
        #expect(entry(Self.usual.replacing("\n", with: "\r\n")).exec?.texts == ["app"])
        #expect(entry(Self.usual.replacing("=", with: " = ")).exec?.texts == ["app"])
        #expect(entry(Self.usual + "NoDisplay=true\nDBusActivatable=true\n").exec != nil, "it is in no menu, and still opens links")
        for added in ["Hidden=true", "Terminal=true", "Type=Link", "Type=application", "Exec=app", #"Exec=app \q %u"#, "Exec="] {
            #expect(entry(Self.usual + added + "\n").exec == nil, "\(added)")
        }
        for text in ["", "[Desktop Entry", Self.usual.replacing("Desktop Entry", with: "Other"), "Type=Application\nExec=app %u"] {
            #expect(entry(text).exec == nil, "\(text)")
        }
        // Escape sequences of the file come before the quotes of the line.
        #expect(entry(Self.usual + #"Exec=app "a\\\\b" \s %u"# + "\n").exec?.texts == ["app", "a\\b"])
        #expect(entry(Self.usual + "TryExec=\n").tryExec == nil && entry(Self.usual + "TryExec=/no\n").tryExec == "/no")
    }

    @Test(arguments: [
        ("", "N"), ("C", "N"), ("de", "de"), ("de_CH.UTF-8", "de"), ("de_AT.UTF-8", "at"), ("sr_RS@latin", "latin"), ("sr", "sr"),
        ("sr_YU@latin", "yu"), ("@", "N"), ("_", "N"), (".", "N"), ("de\u{301}", "N"),
    ]) func nameIsThatOfTheLocale(locale: String, expected: String) {
        let names = "Name=N\nName[de]=de\nName[de_AT]=at\nName[sr]=sr\nName[sr@latin]=latin\nName[sr_YU@latin]=yu\n"
        #expect(entry("[Desktop Entry]\n" + names, locale: locale).name == expected)
    }

    @Test func nameIsShort() {
        let name = entry("[Desktop Entry]\nName=a\\nb\u{202e}\u{1b}[31m\(String(repeating: "x", count: 200_000))\n").name
        #expect(name.count == 64 && !name.contains("\n") && !name.contains("\u{202e}") && !name.contains("\u{1b}"))
    }

    /// Random bytes and broken files end no process, and give no program by chance.
    @Test func hostileFilesAreRead() {
        let seed = UInt64.random(in: 0..<1_000_000)
        var random = SeededGenerator(seed: seed)
        let whole = Array((Self.usual + "Icon=i\nTryExec=t\nName[de]=x\nKeywords=a\\;b;\\\\;\n").utf8)
        for _ in 0..<3_000 {
            var bytes = whole
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                let place = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes[place] = .random(in: .min ... .max, using: &random)
                case 1: bytes.insert(.random(in: .min ... .max, using: &random), at: place)
                case 2: bytes.removeSubrange(place..<min(bytes.count, place + 9))
                default: bytes.insert(contentsOf: bytes[place..<min(bytes.count, place + 40)], at: place)
                }
                if bytes.isEmpty { bytes = [0] }
            }
            let read = DesktopEntry(bytes, path: "/x.desktop", locale: "de_AT@x")
            if let exec = read.exec { #expect(!exec.program.isEmpty, "seed \(seed)") }
        }
        for bytes in [[], [0x0a], Array(repeating: 0x5b, count: 100_000), Array(repeating: 0x3d, count: 100_000), [0xff, 0xfe, 0x5b]]
            as [[UInt8]]
        {
            #expect(DesktopEntry(bytes, path: "", locale: "\u{0}").exec == nil)
        }
        let long = "[Desktop Entry]\nType=Application\nExec=app %u " + String(repeating: "\\\\\"\\\\\"", count: 30_000)
        #expect(entry(long).exec == nil || entry(long).exec?.program == "app")
        #expect(entry("[Desktop Entry]\nMimeType=" + String(repeating: ";", count: 100_000)).types.count <= 1)
    }
}
