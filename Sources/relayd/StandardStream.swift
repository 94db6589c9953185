// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ProgramTexts
import RelayProtocol
import RelayStorage

/// Unbuffered line output: a reader that waits for a line gets it at once. All text leaves the program here, and here alone it is cleaned:
/// no character of it controls the terminal or the writing direction.
enum StandardStream {
    case output
    case error

    /// A part of a line, with the parameter of SGR (ECMA-48) that emphasises it.
    struct Part {
        var text: String
        var code: String?
    }

    /// Writes a log entry, or a note that is translated, of one line or several. A failure is ignored: the program's work does not depend on
    /// it.
    func writeLine(_ line: String) { try? write([Part(text: line)]) }

    /// Writes a note for a person, in the person's language.
    static func note(_ english: String) { error.writeLine(localized(english)) }

    /// Writes a result.
    func write(_ parts: [Part]) throws(OutputError) {
        let line = parts.map { part in
            let text = DisplayText.sanitizedLines(part.text)
            return part.code.map { "\u{1B}[\($0)m\(text)\u{1B}[0m" } ?? text
        }
        try descriptor.write((line.joined() + "\n").utf8)
    }

    /// Writes a part of a result that is no text.
    func write(_ bytes: [UInt8]) throws(OutputError) { try descriptor.write(bytes) }

    var isTerminal: Bool { descriptor.isTerminal }

    private var descriptor: StandardDescriptor {
        switch self {
        case .output: .output
        case .error: .error
        }
    }
}

/// In this program `print` is the cleaned output, so that no command can use the other one by mistake. A result that is not written fails the
/// command.
/// Prints a result for a person, in the person's language.
func print(_ english: String) throws(OutputError) { try print(asIs: localized(english)) }

/// Prints what programs read, or what is translated.
func print(asIs line: String) throws(OutputError) { try StandardStream.output.write([StandardStream.Part(text: line)]) }
