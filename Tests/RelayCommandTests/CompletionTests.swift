// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

@testable import RelayAgent

@Suite(.serialized, .timeLimit(.minutes(10))) struct CompletionTests {
    @Test func completionOffersDevices() async throws {
        let account = try await TestAccount()
        let devices = [
            try await account.device(named: "Living room"), try await account.device(named: "$(touch evil)"),
            try await account.device(named: "Küche"),
        ]
        let evil = try #require(try await devices[1].relay("whoami", "--json").json["device"] as? String)
        let desk = try await account.device(named: "Desk")
        _ = try await account.relay.stop()
        // A shell that loads the script of `relay completions` and completes a word.
        let relay = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().path
        let script = """
            cd "$1"; PATH=$2:$PATH; export DEVICE_RELAY_HOME=$3
            eval "$(relay completions bash)" || exit 9
            COMP_WORDS=(relay launch "$4"); COMP_CWORD=2; COMP_LINE="relay launch $4"; COMP_POINT=${#COMP_LINE}
            _relay relay "$4" launch
            printf '%s\\n' "${COMPREPLY[@]}"
            """
        func offered(_ word: String) async throws -> [String] {
            let shell = try RelayProcess(
                ["-c", script, "bash", desk.directory.path, relay, desk.home, word],
                executable: URL(filePath: "/bin/bash"),
                environment: desk.environment
            )
            let output = await shell.finish()
            #expect(output.status == 0, "\(output.errorText)")
            return output.output.sorted()
        }
        #expect(try await offered("") == ["Küche", "Living room", String(evil.prefix(8))].sorted())
        #expect(try await offered("Liv") == ["Living room"])
        #expect(!FileManager.default.fileExists(atPath: desk.directory.path + "/evil"))
    }

    @Test(arguments: [
        ("TV", true), ("Anna's", false), ("a`b", false), ("a;b", false), ("-rf", false), (" a", false), ("", false), ("客厅 2", true),
    ])
    func completionOffersOnlyPlainNames(name: String, isPlain: Bool) { #expect(Completion.isPlain(name) == isPlain) }

    @Test(arguments: ["bash", "zsh", "fish"]) func everyShellHasACompletionScript(shell: String) async throws {
        let output = try await TestDevice().run(["completions", shell], withHome: false)
        #expect(output.status == 0 && output.text.contains("doctor"))
    }
}
