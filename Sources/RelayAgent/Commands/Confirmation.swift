// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// Shows a person lines, and asks a question.
package typealias Question = @Sendable (_ lines: [String], _ question: String) async throws -> Bool

extension Console {
    /// Asks the person at the terminal; `nil` without a terminal.
    package var question: Question? { canAsk ? isConfirmed : nil }

    /// Whether a user is present who can answer a question.
    var canAsk: Bool { !isJSON && isInteractive && isatty(0) == 1 }

    /// Shows lines and asks a question, until the answer is yes or no. No answer means no, and so does the end of the input.
    func isConfirmed(_ lines: [String], _ question: String) async throws -> Bool {
        tcflush(0, TCIFLUSH)
        note((lines + ["\(question) [y/N]"]).joined(separator: "\n"))
        let input = StandardInput()
        while let answer = try await input.line(most: 1_024) {
            switch String(decoding: answer, as: UTF8.self).lowercased() {
            case "y", "yes": return true
            case "", "n", "no": return false
            default: note("Answer y or n. \(question) [y/N]")
            }
        }
        return false
    }
}
