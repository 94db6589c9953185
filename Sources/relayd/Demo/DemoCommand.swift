// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import ProgramTexts
import UnixSignals

struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: localized(
            "Run a demo on this machine: two devices find each other, launch, ping and fetch files. It deletes its files at the end."
        ),
        subcommands: [Opened.self]
    )

    @Option(help: ArgumentHelp(localized("The command line of the devices. Default: `relay` beside this program."), valueName: "file"))
    var relay: String?

    func run() async throws {
        let relayd = try Self.thisProgram()
        let relay = self.relay.map { URL(filePath: $0) } ?? relayd.deletingLastPathComponent().appending(path: "relay")
        guard FileManager.default.isExecutableFile(atPath: relay.path) else {
            throw DemoFailure(
                "there is no `relay` at \(relay.path); build it with `swift build --product relay`, or give its path with --relay"
            )
        }
        let directory = FileManager.default.temporaryDirectory.appending(path: "device-relay-demo-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        defer { try? FileManager.default.removeItem(at: directory) }
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await Demo(relayd: relayd, relay: relay, directory: directory).run() }
            group.addTask {
                for await _ in signals { throw DemoFailure("interrupted; nothing is left behind") }
            }
            group.addTask {
                try await Task.sleep(for: .seconds(120))
                throw DemoFailure("the last step took too long")
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    private static func thisProgram() throws -> URL {
        if let path = Bundle.main.executablePath { return URL(filePath: path) }
        throw DemoFailure("this program does not know where it is")
    }

    /// The demo's browser on the PC: records the URIs that it is asked to open.
    struct Opened: ParsableCommand {
        static let configuration = CommandConfiguration(commandName: "opened", shouldDisplay: false)

        @Option var log: String
        @Argument var uri: String

        func run() throws {
            let file = open(log, O_WRONLY | O_CREAT | O_APPEND, 0o600)
            guard file >= 0 else { throw DemoFailure("\(log) cannot be written") }
            try FileHandle(fileDescriptor: file, closeOnDealloc: true).write(contentsOf: Data("\(uri)\n".utf8))
        }
    }
}
