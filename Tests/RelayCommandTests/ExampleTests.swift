// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// Runs the examples by the commands of their README.
@Suite(.serialized, .timeLimit(.minutes(10))) struct ExampleTests {
    /// The shell blocks of Examples/README.md, with other paths for the files that they create.
    private static func blocks(in directory: String) throws -> [String] {
        try Project.fences(of: "Examples/README.md").filter(\.isTyped).map {
            $0.code.replacing("/tmp/examples", with: directory).replacing(".build/debug", with: Project.products.path)
        }
    }

    @Test func commandsOfTheREADMEWork() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "examples-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let blocks = try Self.blocks(in: directory)
        // The ports of the text may be in use. What is built is what runs these tests.
        let address = try await RelaydProcess().host
        let environment = [
            "HOME": directory, "PATH": "/usr/bin:/bin", "TZ": "UTC", "RELAYD_LISTEN": address, "RELAYD_TUNNEL_LISTEN": "127.0.0.1:0",
        ]
        let relayd = Project.products.path + "/relayd serve"
        let beginning = try #require(blocks.first).replacing(relayd, with: "exec \(relayd)")
        let relay = try RelayProcess(
            ["-ec", "swift() { [ \"$*\" = build ]; }\n\(beginning)"],
            executable: URL(filePath: "/bin/bash"),
            environment: environment
        )
        _ = try await relay.line { $0.contains("ready at http://\(address)") }
        let shell = try RelayProcess(shell: blocks.dropFirst().joined(separator: "\n"), environment: environment)
        let output = await shell.finish()
        #expect(output.status == 0, "\(output.errorText)")
        let lines = output.output
        #expect(lines.count { $0.wholeMatch(of: /pong from TV after .*/) != nil } == 3, "\(output.text)")
        #expect(lines.contains("forum.jpg: 262144 of 1000000 bytes") && lines.contains("forum.jpg: 1000000 of 1000000 bytes"))
        #expect(FileManager.default.contentsEqual(atPath: directory + "/albums/rome/forum.jpg", andPath: directory + "/fetched/forum.jpg"))
        #expect(lines.contains("playing film 42 from 1200 s, sent by Phone"))
        #expect(lines.contains("it goes on in the player of TV"))
        #expect(lines.contains("opening https://films.example/42?t=1200"))
        #expect(lines.contains("it goes on on a web page of Kitchen"))
        relay.send(SIGTERM)
        _ = await relay.finish()
    }
}
