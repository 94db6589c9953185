// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Foundation
import RelayTesting
import Testing

/// Secrets that an operator types at a terminal.
@Suite(.timeLimit(.minutes(10))) final class OperatorTerminalTests {
    private let directory = FileManager.default.temporaryDirectory.appending(path: "relayd-\(UUID().uuidString)")

    deinit { try? FileManager.default.removeItem(at: directory) }

    /// Runs a shell line at a terminal, in which `relayd` stands for the program.
    private func atTerminal(_ line: String) throws -> RelayProcess {
        let program = "'\(RelaydProcess.executable.path)'"
        return try RelayProcess(
            ["-qefc", "relayd() { \(program) \"$@\" --data-directory '\(directory.path)'; }; \(line)", "/dev/null"],
            executable: URL(filePath: "/usr/bin/script"),
            environment: ["PATH": "/usr/bin:/bin", "HOME": directory.path, "SHELL": "/bin/sh"],
            hasInput: true
        )
    }

    @Test func terminalDoesNotShowANewPassword() async throws {
        let process = try atTerminal("relayd account add anna --password")
        _ = try await process.line { $0.contains("Password, at least 10 characters; it is not shown:") }
        try process.write("correct horse battery\n")
        _ = try await process.line { $0.contains("The same once more:") }
        try process.write("correct horse battery\n")
        let output = await process.finish()
        #expect(output.status == 0 && !output.text.contains("horse"), "\(output.text)")
        let listed = try await RelaydProcess.run(["account", "list", "--data-directory", directory.path])
        #expect(listed.output.contains("anna"), "\(listed.error)")
    }

    @Test func passwordsThatDifferMakeNothing() async throws {
        let process = try atTerminal("relayd account add anna --password")
        for (prompt, text) in [("it is not shown:", "correct horse battery\n"), ("once more:", "correct house battery\n")] {
            _ = try await process.line { $0.contains(prompt) }
            try process.write(text)
        }
        let output = await process.finish()
        #expect(output.status == 2 && output.text.contains("the two passwords differ"), "\(output.text)")
        #expect(!FileManager.default.fileExists(atPath: directory.path))
    }

    @Test(arguments: [("account add anna --password", "it is not shown:"), ("token revoke", "Paste the token; it is not shown:")])
    func interruptedPromptShowsTypedTextAgain(command: String, prompt: String) async throws {
        // The shell survives Ctrl-C, and then prints whether the terminal shows what is typed.
        let shell = try atTerminal("trap : INT; relayd \(command); stty -a | tr -d ';' | tr ' ' '\\n' | grep -x -e echo -e -echo")
        _ = try await shell.line { $0.contains(prompt) }
        try shell.write("\u{3}")
        let rest = await shell.finish()
        #expect(rest.output.contains { $0.trimmingCharacters(in: .whitespacesAndNewlines) == "echo" }, "\(rest.text)")
    }
}
#endif
