// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import ProgramTexts

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
        let question = "\(translation.text(question)) \(translation.text("[y/N]"))"
        log((lines.map(translation.text) + [question]).joined(separator: "\n"))
        let input = StandardInput()
        while let answer = try await input.line(most: 1_024) {
            switch String(decoding: answer, as: UTF8.self).lowercased() {
            case let word where translation.yes.contains(word): return true
            case let word where word.isEmpty || translation.no.contains(word): return false
            default: log("\(translation.text("Answer y or n.")) \(question)")
            }
        }
        return false
    }
}
