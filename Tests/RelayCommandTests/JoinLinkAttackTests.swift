// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Foundation
import RelayTesting
import Testing

/// Another user of the machine reads the arguments of every process.
@Suite(.serialized, .timeLimit(.minutes(10))) struct JoinLinkAttackTests {
    private func arguments(of process: RelayProcess) -> String {
        FileManager.default.contents(atPath: "/proc/\(process.id)/cmdline").map { String(decoding: $0, as: UTF8.self) } ?? ""
    }

    @Test func commandsNeedNoSecretArgument() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let host = try await tv.host()
        let commands: [(device: TestDevice, words: [String], input: String)] = [
            (try TestDevice(), ["join", "--name", "Phone"], try await account.link()),
            (desk, ["launch", "TV", "-"], "https://films.example/secret"),
            (desk, ["call", "TV/org.device-relay.cli", "ping", "-"], #"{"a":"secret"}"#),
        ]
        for (device, words, input) in commands {
            let process = try device.startReading(words)
            // The process runs until it has read its input.
            try await wait { arguments(of: process).contains(words[0]) }
            #expect(!arguments(of: process).contains(input))
            try process.write(input + "\n")
            #expect(!arguments(of: process).contains(input))
            try process.endInput()
            let output = await process.finish()
            #expect(output.status == 0, "\(words): \(output.errorText)")
        }
        _ = host
    }

    /// What programs and documents tell a person to type.
    @Test func noTextAdvisesALinkAsArgument() throws {
        let folders = ["Sources", "docs", "Examples"].flatMap { folder in
            (FileManager.default.enumerator(atPath: Project.root.appending(path: folder).path)?.compactMap { $0 as? String } ?? [])
                .map { "\(folder)/\($0)" }
        }
        let paths = (folders + ["README.md"]).filter { $0.hasSuffix(".swift") || $0.hasSuffix(".md") }
        #expect(paths.count > 500)
        // A command, or a usage, and then a link: its placeholder, its address, or a variable with it.
        let advice = /\bjoin ['"]?(LINK|https?:|\$|\\\()/
        for path in paths {
            for line in try Project.text(path).split(separator: "\n") where line.contains(advice) {
                Issue.record("\(path): \(line)")
            }
        }
    }
}
#endif
