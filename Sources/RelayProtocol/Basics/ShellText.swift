// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Text of a command that a user pastes into a shell. Every command that the programs print for that purpose takes its variable words from
/// here.
package enum ShellText {
    /// A word that a POSIX shell reads as this text and nothing else (IEEE 1003.1, Shell Command Language 2.2.2): in single quotes, unless
    /// all of its characters are literal anyway. A character that controls a terminal is replaced as `DisplayText` does.
    package static func word(_ text: String) -> String {
        let text = DisplayText.sanitized(text)
        guard text.isEmpty || !text.utf8.allSatisfy(isLiteral) else { return text }
        // By scalars: a quote with a combining mark is a quote for the shell.
        let quoted = text.unicodeScalars.map { $0 == "'" ? #"'\''"# : String($0) }.joined()
        return "'\(quoted)'"
    }

    /// A command with operands that are names or ids of the account. One that begins with `-` is no option.
    /// - Parameter command: Fixed words, such as `relay verify`.
    package static func command(_ command: String, _ operands: String...) -> String {
        let isOption = operands.contains { $0.utf8.first == UInt8(ascii: "-") }
        return ([command] + (isOption ? ["--"] : []) + operands.map(word)).joined(separator: " ")
    }

    private static func isLiteral(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
        default: "-_./:@%+,".utf8.contains(byte)
        }
    }
}
