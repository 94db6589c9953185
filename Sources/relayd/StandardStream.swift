// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Unbuffered line output: a reader that waits for a line gets it at once. All text leaves the program here, and here alone it is cleaned:
/// no character of it controls the terminal or the writing direction.
enum StandardStream: Int32 {
    case output = 1
    case error = 2

    /// A part of a line, with the parameter of SGR (ECMA-48) that emphasises it.
    struct Part {
        var text: String
        var code: String?
    }

    /// Writes a text of one line or several.
    func writeLine(_ line: String) { writeLine([Part(text: line)]) }

    func writeLine(_ parts: [Part]) {
        let line = parts.map { part in
            let text = DisplayText.sanitizedLines(part.text)
            return part.code.map { "\u{1B}[\($0)m\(text)\u{1B}[0m" } ?? text
        }
        _ = write(Array((line.joined() + "\n").utf8))
    }

    /// Writes bytes that are no text.
    /// - Returns: The error's number; `nil` if all bytes were written.
    func write(_ content: [UInt8]) -> CInt? {
        var bytes = content[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { writeOnce(rawValue, $0.baseAddress, $0.count) }
            guard count > 0 else { return errno }
            bytes = bytes.dropFirst(count)
        }
        return nil
    }

    /// Whether it is a terminal.
    var isTerminal: Bool { isatty(rawValue) == 1 }
}

private func writeOnce(_ descriptor: CInt, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int { write(descriptor, bytes, count) }

/// In this program `print` is the cleaned output, so that no command can use the other one by mistake.
func print(_ line: some CustomStringConvertible) { StandardStream.output.writeLine(line.description) }
