// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// Lines that a person types at a terminal, or that a script writes to standard input. Other users of this machine do not see them, as they
/// see arguments. One object reads all lines of a command, because it reads ahead.
package struct TypedInput: Sendable {
    /// The limit of a line. A terminal passes on 4,095 bytes of a line.
    private static let maximumLine = 64 << 10

    private let console: Console
    private let input = StandardInput()
    /// The command with which a person without a password signs in at the relay.
    private var browserLogin = ShellText.command("relay login --browser", "URL")

    package init(_ console: Console) { self.console = console }

    /// A copy whose advice names this command.
    func advising(_ browserLogin: String) -> TypedInput {
        var input = self
        input.browserLogin = browserLogin
        return input
    }

    /// Whether a person types. Then a wrong answer can be corrected.
    var isTerminal: Bool { isatty(0) == 1 }

    /// A text of the arguments. For `-`, the next line is read.
    package func text(_ argument: String) async throws -> String {
        guard argument == "-" else { return argument }
        return try Self.text(try await input.line(most: Self.maximumLine))
    }

    /// A secret that can be an argument. For nothing, or `-`, the next line is read, and a terminal does not show it.
    package func secret(_ argument: String?, _ prompt: String) async throws -> String {
        guard let argument, argument != "-" else { return try await hiddenLine(prompt) }
        return argument
    }

    /// A line that the terminal shows.
    func line(_ prompt: String) async throws -> String {
        if isTerminal { console.note(prompt) }
        return try Self.text(try await input.line(most: Self.maximumLine))
    }

    /// The name of an account, which no one has that is empty.
    /// - Parameter known: What the command line has named; `nil` asks for it.
    func accountName(_ known: String?, _ prompt: String) async throws -> String {
        while true {
            let name = if let known { known } else { try await line(prompt) }
            guard name.utf8.allSatisfy({ $0 == UInt8(ascii: " ") }) else { return name }
            guard known == nil, isTerminal else { throw AgentError("usage", "the name of the account is empty", .usage) }
        }
    }

    /// A line that the terminal does not show.
    func hiddenLine(_ prompt: String) async throws -> String {
        var shown = termios()
        guard isTerminal, tcgetattr(0, &shown) == 0 else { return try await text("-") }
        let interruption = CancellationSignal()
        // From here on a signal ends the wait, so that the terminal always shows again what is typed.
        let line = try await interruption.cancelling { [shown] in
            var (shown, hidden) = (shown, shown)
            hidden.c_lflag &= ~tcflag_t(ECHO)
            tcsetattr(0, TCSAFLUSH, &hidden)
            // What a paste has beyond the line is a part of a secret: the shell must not read it as a command.
            defer { tcsetattr(0, TCSAFLUSH, &shown) }
            console.note(prompt)
            return try await input.line(most: Self.maximumLine)
        }
        guard !interruption.isThere else { throw interruption.failure() }
        return try Self.text(line)
    }

    /// A new password, which a person types twice.
    func newPassword() async throws -> Secret<String> {
        while true {
            let password = try await hiddenLine("New password, at least 10 characters; it is not shown:")
            guard isTerminal else { return Secret(password) }
            if password.utf8.elementsEqual(try await hiddenLine("The same once more:").utf8) { return Secret(password) }
            console.note("The two passwords differ.")
        }
    }

    /// Repeats a body while a person can correct what was typed: three times at a terminal, else once.
    func attempts<Result>(_ body: () async throws -> Result) async throws -> Result {
        var left = isTerminal ? 2 : 0
        while true {
            do {
                return try await body()
            } catch let failure as TerminalAccount.Failure {
                let error = AgentError(failure, browserLogin: browserLogin)
                guard left > 0, failure.canBeCorrected else { throw error }
                left -= 1
                console.note(error.message)
            }
        }
    }

    private static func text(_ line: [UInt8]?) throws(AgentError) -> String {
        guard let line, let text = String(validating: line, as: UTF8.self) else {
            throw AgentError("usage", line == nil ? "standard input is empty" : "standard input is not valid UTF-8", .usage)
        }
        guard !text.utf8.contains(0) else { throw AgentError("usage", "standard input has a NUL character", .usage) }
        return text.utf8.last == UInt8(ascii: "\r") ? String(decoding: text.utf8.dropLast(), as: UTF8.self) : text
    }
}
