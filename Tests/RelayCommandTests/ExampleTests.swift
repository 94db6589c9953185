// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// Runs the examples by the commands of their README.
@Suite(.serialized, .timeLimit(.minutes(10))) struct ExampleTests {
    /// The shell blocks of Examples/README.md, with other paths for the files that they create.
    private static func blocks(in directory: String) throws -> [String] {
        try Project.blocks("sh", of: "Examples/README.md").map {
            $0.replacing("/tmp/examples", with: directory).replacing(".build/debug", with: Project.products.path)
        }
    }

    @Test func commandsOfTheREADMEWork() async throws {
        let relay = try await RelaydProcess()
        _ = try await relay.start()
        let directory = FileManager.default.temporaryDirectory.appending(path: "examples-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let blocks = try Self.blocks(in: directory)
        #expect(blocks.count == 5)
        // The first block builds and starts a relay. The test's own relay replaces it.
        #expect(blocks.first?.contains("relayd serve --data-directory") == true)
        // `relayd invite` finds the address of the relay that runs on the directory.
        let ownRelay = "--data-directory \(relay.directory.path)"
        let script = blocks.dropFirst().joined(separator: "\n").replacing("--data-directory \(directory)/relay", with: ownRelay)
        let shell = try RelayProcess(shell: script, environment: ["HOME": directory, "PATH": "/usr/bin:/bin", "TZ": "UTC"])
        let output = await shell.finish()
        _ = try await relay.stop()
        #expect(output.status == 0, "\(output.errorText)")
        let lines = output.output
        #expect(lines.count { $0.wholeMatch(of: /pong from TV after .*/) != nil } == 3, "\(output.text)")
        #expect(lines.contains("forum.jpg: 262144 of 1000000 bytes") && lines.contains("forum.jpg: 1000000 of 1000000 bytes"))
        #expect(FileManager.default.contentsEqual(atPath: directory + "/albums/rome/forum.jpg", andPath: directory + "/fetched/forum.jpg"))
        #expect(lines.contains("playing film 42 from 1200 s, sent by Phone"))
        #expect(lines.contains("it goes on in the player of TV"))
        #expect(lines.contains("opening https://films.example/42?t=1200"))
        #expect(lines.contains("it goes on on a web page of Kitchen"))
        _ = try await relay.stop()
    }
}
