// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Words of commands that a user pastes into a shell.
@Suite struct ShellTextTests {
    private static let pieces =
        (0x20...0x7E).map { String(UnicodeScalar(UInt8($0))) }
        + [
            "$(id)", "`id`", "'", "''", "\\'", "'\"'", "${HOME}", "~", "*", "\u{E4}", "\u{1F600}", "\u{301}", "'\u{301}", "\u{200D}", "--",
            "#relay=", "!!",
        ]

    /// Real shells read each word as the text that it was made of, and run nothing.
    @Test(arguments: ["/bin/sh", "/bin/bash"]) func shellsReadTheTextBack(shell: String) async throws {
        guard FileManager.default.isExecutableFile(atPath: shell) else { return }
        let seed = UInt64.random(in: .min ... .max)
        var random = SeededGenerator(seed: seed)
        let texts =
            [""] + Self.pieces
            + (0..<300).map { _ in
                (0..<Int.random(in: 1...8, using: &random)).compactMap { _ in Self.pieces.randomElement(using: &random) }.joined()
            }
        let process = Process()
        process.executableURL = URL(filePath: shell)
        process.arguments = ["-c", "printf '%s\\n' " + texts.map(ShellText.word).joined(separator: " ")]
        let ended = try await ProcessRun.run(process)
        #expect(ended.status == 0)
        #expect(ended.output.utf8.elementsEqual((texts.joined(separator: "\n") + "\n").utf8), "seed \(seed)")
    }

    @Test func plainWordsStayAsTheyAre() {
        for text in ["Desk", "t3vfq2bh", "https://relay.example/", "TV/org.example.player"] { #expect(ShellText.word(text) == text) }
        #expect(ShellText.word("living room/org.example") == "'living room/org.example'")
        #expect(ShellText.word("https://relay.example/#relay=1") == "'https://relay.example/#relay=1'")
        // A line feed would end the command.
        #expect(ShellText.word("a\nid") == "'a\u{FFFD}id'")
        #expect(ShellText.command("relay verify", "Anna's desk") == #"relay verify 'Anna'\''s desk'"#)
        #expect(ShellText.command("relay verify", "-x") == "relay verify -- -x")
    }
}
