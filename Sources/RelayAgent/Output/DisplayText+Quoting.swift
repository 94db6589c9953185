// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

extension DisplayText {
    /// A text of another device, in quotes that it cannot close, on one line and with single spaces, so that it cannot
    /// imitate other output.
    static func quoted(_ text: String) -> String {
        let words = sanitized(text).unicodeScalars.split { $0.properties.isWhitespace }
        let line = words.map { String(String.UnicodeScalarView($0)) }.joined(separator: " ")
        // By scalars: a quote with a combining mark still looks like one.
        let escaped = line.unicodeScalars.map { $0 == "\"" || $0 == "\\" ? "\\\($0)" : String($0) }.joined()
        return "\"\(escaped)\""
    }

    /// An id in groups of four characters, for a comparison by two people.
    static func grouped(_ id: String) -> String {
        let bytes = Array(id.utf8)
        return stride(from: 0, to: bytes.count, by: 4)
            .map { String(decoding: bytes[$0..<min($0 + 4, bytes.count)], as: UTF8.self) }
            .joined(separator: " ")
    }
}
