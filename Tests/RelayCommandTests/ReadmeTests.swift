// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

@testable import RelayAgent

/// Checks README.md word for word. The demo and the lines for two machines have their own tests.
@Suite(.serialized, .timeLimit(.minutes(10))) struct ReadmeTests {
    /// The lines of a block without comments.
    private func commands(_ block: String) -> [String] {
        block.split(separator: "\n").map { $0.prefix { $0 != "#" }.trimmingCharacters(in: .whitespaces) }
    }

    @Test func namedScriptsAndFilesExist() throws {
        // It runs this test. CI runs it too.
        #expect(commands(try Project.block(8, of: "README.md")) == ["scripts/test"])
        #expect(try Project.text(".ci/run").contains("\nbash scripts/test\n"))
        let text = try Project.text("README.md")
        let scripts = text.matches(of: /`?(scripts\/[a-z-]+)`?/).map { String($0.1) }
        #expect(Set(scripts).isSuperset(of: ["scripts/demo", "scripts/install", "scripts/test"]))
        for script in scripts {
            #expect(FileManager.default.isExecutableFile(atPath: Project.root.appending(path: script).path), "\(script)")
        }
        for link in text.matches(of: /\]\(([^)#:]+)\)/) {
            #expect(FileManager.default.fileExists(atPath: Project.root.appending(path: String(link.1)).path), "\(link.1)")
        }
        // The products that the scripts build exist under these names.
        for script in ["scripts/demo", "scripts/install"] {
            let products = try Project.text(script).matches(of: /--product ([a-z]+)/).map { String($0.1) }
            #expect(products == ["relayd", "relay"])
        }
        for product in ["relayd", "relay"] {
            #expect(FileManager.default.isExecutableFile(atPath: Project.products.appending(path: product).path))
        }
    }

    @Test(arguments: ["scripts/demo", "scripts/install", "scripts/test"]) func missingSwiftIsReported(script: String) async throws {
        let device = try TestDevice()
        // `PATH` contains only the programs that locate the project.
        for program in ["dirname", "id"] {
            try FileManager.default.createSymbolicLink(
                atPath: device.directory.path + "/\(program)",
                withDestinationPath: "/usr/bin/\(program)"
            )
        }
        let output = try await RelayProcess(
            [Project.root.appending(path: script).path],
            executable: URL(filePath: "/bin/bash"),
            environment: ["PATH": device.directory.path, "HOME": device.directory.path]
        ).finish()
        #expect(output.status == 1)
        #expect(output.errorText.contains("Swift 6.3 or later is missing; see https://www.swift.org/install"), "\(output.errorText)")
    }

    @Test func manualSetupOfTwoDevicesWorks() async throws {
        let device = try TestDevice()
        let directory = device.directory
        let build = directory.appending(path: ".build/debug")
        try FileManager.default.createDirectory(at: build, withIntermediateDirectories: true)
        for product in ["relay", "relayd"] {
            try FileManager.default.createSymbolicLink(
                at: build.appending(path: product),
                withDestinationURL: Project.products.appending(path: product)
            )
        }
        // The ports of the text may be in use.
        let address = try await RelaydProcess().host
        let environment = [
            "HOME": directory.path, "PATH": "/usr/bin:/bin", "RELAYD_LISTEN": address, "RELAYD_TUNNEL_LISTEN": "127.0.0.1:0",
        ]
        let relay = try RelayProcess(
            ["-c", "exec \(try Project.block(5, of: "README.md"))"],
            executable: URL(filePath: "/bin/bash"),
            environment: environment,
            directory: directory
        )
        _ = try await relay.line { $0.contains("ready at http://\(address)") }
        #expect(FileManager.default.fileExists(atPath: directory.path + "/.local/share/relayd"))
        // The host runs until the rest of the block follows, as a reader would continue it.
        let (beginning, rest) = (try Project.block(6, of: "README.md"), try Project.block(7, of: "README.md"))
        let script = "\(beginning)\nuntil [ -e go-on ]; do sleep 0.1; done\n\(rest)"
        let devices = try RelayProcess(shell: script, environment: environment, directory: directory)
        _ = try await devices.errorLine { $0.hasPrefix("hosting") }
        try Data().write(to: directory.appending(path: "go-on"))
        let output = await devices.finish()
        #expect(output.status == 0, "\(output.errorText)")
        for line in ["Opened on PC by org.device-relay.cli", "3 sent, 3 received, 0 lost"] {
            #expect(output.output.contains(line), "\(output.text)")
        }
        #expect(output.output.contains { $0.hasPrefix("PC") && $0.contains("Online for") }, "\(output.text)")
        #expect(output.output.last?.contains(#""Hello":"PC""#) == true, "\(output.text)")
    }

    @Test func limitsMatchTheRelay() async throws {
        let output = try await RelayProcess(
            ["limits", "--json"],
            executable: Project.products.appending(path: "relayd"),
            environment: ["HOME": "/nonexistent"]
        ).finish()
        let limits = try JSON.object(output.text)
        let rows = try Project.text("README.md").matches(of: /\n\| [^|]+ \| ([0-9]+)( [A-Za-z]+)? \| ((?:`[A-Za-z]+`(?:, )?)+) \|/)
        #expect(rows.count == 11)
        for row in rows {
            let unit = [" MiB": 1 << 20, " KiB": 1 << 10][row.2.map(String.init) ?? ""] ?? 1
            let value = try #require(Int(row.1)) * unit
            for name in row.3.matches(of: /[A-Za-z]+/) { #expect(limits[String(name.0)] as? Int == value, "\(name.0)") }
        }
    }
}
