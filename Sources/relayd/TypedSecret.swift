// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import RelayProtocol

/// A secret that an operator types or pastes, or that a script writes to standard input. A terminal does not show it.
enum TypedSecret {
    /// A terminal passes on 4,095 bytes of a line.
    private static let maximumBytes = 64 << 10

    private static let isTerminal = isatty(0) == 1

    /// The next line of standard input.
    /// - Parameter what: What is read, such as `the password`, for the prompt and the errors.
    static func line(_ what: String, _ prompt: String) throws -> Secret<String> {
        let bytes = try isTerminal ? HiddenTerminal.line(prompt, readLine) : readLine()
        guard let bytes, !bytes.isEmpty else { throw ValidationError("\(what) is read from standard input, which is empty") }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw ValidationError("\(what) is not valid UTF-8") }
        return Secret(text)
    }

    /// A new password, which a person types twice.
    static func newPassword() throws -> Secret<String> {
        let password = try line("the password", "Password, at least 10 characters; it is not shown:")
        guard isTerminal else { return password }
        let repeated = try line("the password", "The same once more:")
        guard password.exposed.utf8.elementsEqual(repeated.exposed.utf8) else { throw ValidationError("the two passwords differ") }
        return password
    }

    /// Byte by byte, so that what follows the line stays for the next one.
    private static func readLine() throws -> [UInt8]? {
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while true {
            let count = read(0, &byte, 1)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return line.isEmpty ? nil : line }
            guard byte != UInt8(ascii: "\n") else { break }
            line.append(byte)
            guard line.count <= maximumBytes else {
                throw ValidationError("a line of standard input has more than \(maximumBytes) bytes")
            }
        }
        if line.last == UInt8(ascii: "\r") { line.removeLast() }
        return line
    }
}

/// A terminal that does not show what is typed. It shows it again after the line, and before a signal ends the process.
private enum HiddenTerminal {
    private static let signals = [SIGINT, SIGTERM, SIGQUIT]
    /// The terminal's state before. Written before the handlers are installed, and then only read.
    nonisolated(unsafe) private static var shown = termios()

    static func line(_ prompt: String, _ read: () throws -> [UInt8]?) throws -> [UInt8]? {
        guard tcgetattr(0, &shown) == 0 else { return try read() }
        var hidden = shown
        hidden.c_lflag &= ~tcflag_t(ECHO)
        for number in signals {
            signal(number) { number in
                // Both calls are permitted in a signal handler (POSIX).
                tcsetattr(0, TCSAFLUSH, &HiddenTerminal.shown)
                signal(number, SIG_DFL)
                raise(number)
            }
        }
        tcsetattr(0, TCSAFLUSH, &hidden)
        defer {
            // What a paste has beyond the line is a part of a secret: the shell must not read it as a command.
            tcsetattr(0, TCSAFLUSH, &shown)
            for number in signals { signal(number, SIG_DFL) }
        }
        StandardStream.note(prompt)
        return try read()
    }
}
