// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// The demo as a first-time user runs it.
@Suite(.timeLimit(.minutes(10))) struct DemoTests {
    private static let relayd = Project.products.appending(path: "relayd")

    @Test func demoShowsTheMainFeaturesAndLeavesNoFiles() async throws {
        let device = try TestDevice()
        // The programs are built, and another build beside the tests would wait for them.
        let built = try TestDevice()
        let swift = """
            #!/bin/sh
            case "$*" in
            *' --show-bin-path') echo '\(Project.products.path)' ;;
            'build '*' --product '*) ;;
            *) exit 64 ;;
            esac
            """
        try Data(swift.utf8).write(to: built.directory.appending(path: "swift"))
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: built.directory.path + "/swift")
        let environment = [
            "PATH": "\(built.directory.path):/usr/bin:/bin", "HOME": device.directory.path, "TMPDIR": device.directory.path,
        ]
        let output = await
            (try RelayProcess(
                ["-c", try Project.block(1, of: "README.md")],
                executable: URL(filePath: "/bin/bash"),
                environment: environment,
                directory: Project.root
            )).finish()
        #expect(output.status == 0, "\(output.errorText)")
        for line in [
            "Living room PC is connected", "opens https://films.example/42?t=1200", "5 sent, 5 received, 0 lost",
            "12 photos, 96 MiB: all bytes equal", "1 photo, 8 MiB: all bytes equal",
            "Living room PC is not connected", "opens https://films.example/43",
        ] {
            #expect(output.text.contains(line), "\(line)")
        }
        // Some machines have no network with multicast.
        let isLeftOut = output.text.contains("Left out: on this machine")
        #expect(output.text.contains("opens https://films.example/44") != isLeftOut)
        #if os(Linux)
        if TestMachine.isPossible { #expect(!isLeftOut, "\(output.text)") }
        #endif
        #expect(try FileManager.default.contentsOfDirectory(atPath: device.directory.path).isEmpty)
    }

    @Test func demoReportsAMissingProgram() async throws {
        let output = try await RelayProcess(["demo", "--relay", "/nowhere/relay"], executable: Self.relayd, environment: [:]).finish()
        #expect(output.status == 1)
        #expect(output.errorText.contains("there is no `relay` at /nowhere/relay"))
    }

    @Test func relayWithoutAnAccountCreatesOneOnce() async throws {
        let relayd = try await RelaydProcess()
        for _ in 0..<2 {
            _ = try await relayd.start()
            #expect(try await relayd.run("account", "list").split(separator: "\n").count == 1)
            #expect(try await relayd.run("invite").contains("#relay="))
            #expect(try await relayd.stop() == 0)
        }
    }
}
