// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Text for a browser. Interpolated text is escaped, interpolated `HTML` is not.
struct HTML: ExpressibleByStringInterpolation, Hashable, Sendable {
    let text: String

    init(stringLiteral text: String) { self.text = text }
    init(stringInterpolation: Interpolation) { self.text = stringInterpolation.text }
    /// Takes HTML as it is.
    init(verbatim text: String) { self.text = text }

    struct Interpolation: StringInterpolationProtocol {
        fileprivate var text = ""

        init(literalCapacity: Int, interpolationCount: Int) { text.reserveCapacity(literalCapacity) }

        mutating func appendLiteral(_ literal: String) { text += literal }
        mutating func appendInterpolation(_ html: HTML?) { text += html?.text ?? "" }
        mutating func appendInterpolation(_ parts: [HTML]) { for part in parts { text += part.text } }
        mutating func appendInterpolation(_ number: Int) { text += String(number) }
        mutating func appendInterpolation(_ text: String) { self.text += HTML.escape(text) }
    }

    /// Escapes text. Also replaces characters that imitate other text, such as those that change the writing direction.
    static func escape(_ text: String) -> String {
        var escaped = ""
        for scalar in DisplayText.sanitized(text).unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            case "'": escaped += "&#39;"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
