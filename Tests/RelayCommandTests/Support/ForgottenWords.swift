// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// Finds the English words in what a program prints in the made language of the locale `en_XA`, which changes the letters of each template.
/// What is left are values, and what was forgotten.
enum ForgottenWords {
    /// - Parameters:
    ///   - output: What the program has printed.
    ///   - known: Names and codes among the values.
    /// - Returns: The other words of at least two letters. What is in quotes, backticks and the brackets of a usage is none, and neither are
    ///   options, addresses, paths, and what has digits.
    static func words(in output: String, besides known: Set<String>) -> [String] {
        output.split(separator: "\n").flatMap { line in
            line.replacing(/`[^`]*`|'[^']*'|"[^"]*"|<[^>]*>|\[-[^\]]*\]/, with: " ").split(separator: " ")
                .filter { $0.firstMatch(of: /[\/@=#_\d]|[^.]\.[^.]|^-/) == nil }
                .flatMap { $0.split { ",;:()[]⟦⟧….!?|".contains($0) } }
                .filter { word in word.count > 1 && word.allSatisfy { $0.isASCII && $0.isLetter } }
                .map(String.init)
        }
        .filter { !known.contains($0) }
    }
}
