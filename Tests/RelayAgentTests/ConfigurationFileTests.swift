// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import RelayAgent

@Suite struct ConfigurationFileTests {
    @Test func missingFileMeansTheDefaultsUnlessItIsNamed() throws {
        let file = try SettingsFile()
        #expect(try file.read() == AgentConfiguration())
        #expect(file.problem(isNeeded: true)?.contains("cannot be read") == true)
        // An empty file and one with a comment only mean the defaults too.
        #expect(try SettingsFile.settings("") == AgentConfiguration())
        #expect(try SettingsFile.settings("# nothing\n") == AgentConfiguration())
    }

    @Test(arguments: [0o620, 0o602, 0o666, 0o722]) func fileThatOthersCanWriteIsRefused(mode: Int) throws {
        let file = try SettingsFile("name: PC")
        chmod(file.path, mode_t(mode))
        #expect(file.problem()?.contains("chmod go-w \(file.path)") == true)
        chmod(file.path, 0o600)
        #expect(try file.read().name == "PC")
    }

    @Test(arguments: [0o720, 0o702, 0o777]) func folderThatOthersCanWriteIsRefused(mode: Int) throws {
        let file = try SettingsFile("name: PC")
        chmod(file.folder, mode_t(mode))
        #expect(file.problem()?.contains("the folder that it is in") == true)
        chmod(file.folder, 0o700)
        #expect(file.problem() == nil)
    }

    @Test func bothEndsOfALinkAreChecked() throws {
        let (file, other) = (try SettingsFile(), try SettingsFile("name: PC"))
        try FileManager.default.createSymbolicLink(atPath: file.path, withDestinationPath: other.path)
        #expect(try file.read().name == "PC")
        for folder in [file.folder, other.folder] {
            chmod(folder, 0o770)
            #expect(file.problem()?.contains("the folder that it is in") == true)
            chmod(folder, 0o700)
        }
        chmod(other.path, 0o620)
        #expect(file.problem() != nil)
        try FileManager.default.removeItem(atPath: other.path)
        // A link to nothing is no missing file.
        #expect(file.problem()?.contains("cannot be read") == true)
    }

    @Test(.enabled(if: geteuid() == 0, "only root can give a file away")) func fileOfAnotherUserIsRefused() throws {
        let file = try SettingsFile("name: PC")
        chown(file.path, 12_345, 12_345)
        #expect(file.problem()?.contains("belongs to another user") == true)
        chown(file.path, 0, 0)
        chown(file.folder, 12_345, 12_345)
        #expect(file.problem()?.contains("belongs to another user") == true)
    }

    @Test func onlyARegularFileOfTextIsRead() throws {
        let file = try SettingsFile()
        // Opening a pipe would block.
        mkfifo(file.path, 0o600)
        #expect(file.problem() != nil)
        unlink(file.path)
        mkdir(file.path, 0o700)
        #expect(file.problem() != nil)
        rmdir(file.path)
        try Data([0x6E, 0xC3, 0x28]).write(to: URL(filePath: file.path))
        #expect(file.problem()?.contains("as a text") == true)
        try Data(("# " + String(repeating: "x", count: 1 << 20)).utf8).write(to: URL(filePath: file.path))
        #expect(file.problem()?.contains("1 MiB") == true)
    }

    @Test(arguments: [
        "name: a\n---\nname: b", "open: {<<: {scheme: [file]}}", "open: {<<: {schemes: [data]}}", "a: &a {schemes: [file]}\nopen: *a",
        "1: a", "null: a", "name: \"a\\0b\"", "name: a\0b", "name: a\u{1B}[31m", "\tname: a", "open: {schemes: {http: true}}",
        "open: [schemes]", "services: []", "services: {one: null}", "environment: {A: B}", "newDevices: [all]", "open: {command: {a: b}}",
        "open: {command: [[sh]]}", "name: [a]", "open: {programs: .inf}", "open: {programs: 1e400}",
        "open: {programs: 16.5}", "services: {one: {command: [a], timeout: .inf}}", "services: {one: {command: [a], timeout: 1e400}}",
        String(repeating: "[", count: 10_000), String(repeating: "a: {", count: 10_000), "a: " + String(repeating: "&a ", count: 1_000),
    ]) func textThatIsNotPlainSettingsIsRefused(text: String) throws {
        let problem = try #require(try SettingsFile.problem(text), "\(text.prefix(60))")
        #expect(DisplayText.isPlain(problem), "\(problem)")
    }

    /// Each alias doubles what the one before it stands for.
    @Test func aliasesDoNotMultiply() throws {
        let lines = (1...64).map { "s\($0): &s\($0) [*s\($0 - 1), *s\($0 - 1)]" }
        #expect(try SettingsFile.problem("s0: &s0 [a]\n" + lines.joined(separator: "\n")) != nil)
        #expect(try SettingsFile.settings("open:\n  command: &c [firefox]\n  prompt: *c").open.prompt?.arguments == ["firefox"])
        // A mapping that is merged counts like one that is written out.
        #expect(try SettingsFile.settings("open: {<<: {schemes: [x-a], programs: 2}, programs: 3}").open.schemes == ["x-a"])
    }

    @Test(arguments: [
        ("name: PC\nopen:\n  scheme: [http]", 3, "'open.scheme'"), ("open: 7", 1, "'open' has the wrong type"), ("- a", 1, "wrong type"),
        ("name: a\nname: b", 1, "twice"), ("open:\n  schemes: [http", 3, "expected"), ("services:\n  one: {mode: once}", 2, "command"),
        ("open:\n  ask: [tel,\n    'bad scheme']", 2, "bad scheme"), ("name: \"a\\u001b\"", 1, "display name"),
    ]) func problemNamesItsLine(text: String, line: Int, words: String) throws {
        let problem = try #require(try SettingsFile.problem(text))
        #expect(problem.contains("line \(line)") && problem.contains(words), "\(problem)")
    }
}
