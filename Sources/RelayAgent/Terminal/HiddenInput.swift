// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

extension Console {
    /// A join link that other users of this machine do not see, as they see arguments.
    /// - Parameter argument: What was given as argument. With nothing, or `-`, the link is read from standard input.
    package func joinLink(_ argument: String?) async throws -> String {
        guard argument == nil || argument == "-" else { return argument ?? "" }
        return try await hiddenLine("Paste the join link; it is not shown:")
    }

    /// A text that other users of this machine do not see, as they see arguments.
    /// - Parameter argument: What was given as argument. With `-`, the first line of standard input is read.
    package func lineOrArgument(_ argument: String) async throws -> String {
        guard argument == "-" else { return argument }
        return try Self.text(try await StandardInput().line(most: Self.maximumLine))
    }

    /// The limit of such a line. A terminal passes on 4,095 bytes of a line.
    private static let maximumLine = 64 << 10

    /// Reads one line of standard input. A terminal does not show what is typed.
    private func hiddenLine(_ prompt: String) async throws -> String {
        var shown = termios()
        guard isatty(0) == 1, tcgetattr(0, &shown) == 0 else { return try await lineOrArgument("-") }
        let interruption = CancellationSignal()
        // From here on a signal ends the wait, so that the terminal always shows again what is typed.
        let line = try await interruption.cancelling { [shown] in
            var (shown, hidden) = (shown, shown)
            hidden.c_lflag &= ~tcflag_t(ECHO)
            tcsetattr(0, TCSAFLUSH, &hidden)
            defer { tcsetattr(0, TCSANOW, &shown) }
            note(prompt)
            return try await StandardInput().line(most: Self.maximumLine)
        }
        for number in [SIGINT, SIGTERM] { EndingSignals.restore(number) }
        guard !interruption.isThere else {
            var failure = AgentError(CancellationError())
            failure.isInterruption = true
            throw failure
        }
        return try Self.text(line)
    }

    private static func text(_ line: [UInt8]?) throws(AgentError) -> String {
        guard let line, let text = String(validating: line, as: UTF8.self) else {
            throw AgentError("usage", line == nil ? "standard input is empty" : "standard input is not valid UTF-8", .usage)
        }
        return text.utf8.last == UInt8(ascii: "\r") ? String(decoding: text.utf8.dropLast(), as: UTF8.self) : text
    }
}
