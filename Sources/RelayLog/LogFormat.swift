// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation

/// How a line of the log is written. Text from outside can forge neither a line nor a field in either format: it is quoted, and every
/// character that controls a terminal, a line or the writing direction is escaped.
package enum LogFormat: String, CaseIterable, Sendable {
    /// `2026-01-31T12:00:00.000Z notice sign-in failed address=192.0.2.7 account="Anna B" method=password reason=wrongCredentials`
    case text
    /// The same fields as one JSON object in a line.
    case json

    /// The maximum number of characters of a value.
    static let maximumCharacters = 512

    /// - Parameters:
    ///   - level: The level's name.
    ///   - fields: Names are constants of the program, of ASCII letters. None of them is `time`, `level` or `message`.
    package func line(_ time: Date, level: String, _ message: String, _ fields: [(name: String, value: String)]) -> String {
        let time = time.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
        switch self {
        case .text:
            let rest = fields.map { " \($0.name)=\(Self.isBare($0.value) ? $0.value : Self.quoted($0.value, Self.escapedForText))" }
            return "\(time) \(level) \(Self.escaped(message, Self.escapedForText))\(rest.joined())"
        case .json:
            let members = [("time", time), ("level", level), ("message", message)] + fields.map { ($0.name, $0.value) }
            return "{\(members.map { "\"\($0.0)\":\(Self.quoted($0.1, Self.escapedForJSON))" }.joined(separator: ","))}"
        }
    }

    private static func isBare(_ value: String) -> Bool {
        !value.isEmpty && value.utf8.count <= maximumCharacters
            && value.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                    UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: ":"), UInt8(ascii: "/"), UInt8(ascii: "@"),
                    UInt8(ascii: "+"):
                    true
                default: false
                }
            }
    }

    private static func quoted(_ value: String, _ escape: (Unicode.Scalar) -> String) -> String {
        let isLong = value.unicodeScalars.count > maximumCharacters
        let kept = isLong ? String(String.UnicodeScalarView(value.unicodeScalars.prefix(maximumCharacters))) + "…" : value
        return "\"" + escaped(kept, escape, isQuoted: true) + "\""
    }

    private static func escaped(_ text: String, _ escape: (Unicode.Scalar) -> String, isQuoted: Bool = false) -> String {
        text.unicodeScalars.reduce(into: "") { text, scalar in
            switch scalar {
            case "\"" where isQuoted: text += "\\\""
            case "\\": text += "\\\\"
            default: if isHarmful(scalar) { text += escape(scalar) } else { text.unicodeScalars.append(scalar) }
            }
        }
    }

    private static func escapedForText(_ scalar: Unicode.Scalar) -> String { "\\u{\(String(scalar.value, radix: 16))}" }

    private static func escapedForJSON(_ scalar: Unicode.Scalar) -> String {
        scalar.utf16.map { unit in
            let digits = String(unit, radix: 16)
            return "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
        }.joined()
    }

    /// Whether a character is invisible, ends a line, or changes how others are shown.
    private static func isHarmful(_ scalar: Unicode.Scalar) -> Bool {
        if scalar.isASCII { return scalar.value < 0x20 || scalar.value == 0x7F }
        return switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .spaceSeparator, .surrogate, .privateUse, .unassigned: true
        default: scalar.properties.isDefaultIgnorableCodePoint
        }
    }
}
