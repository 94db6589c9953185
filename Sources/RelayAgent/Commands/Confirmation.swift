// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

extension Console {
    /// Whether a user is present who can answer a question.
    var canAsk: Bool { !isJSON && isInteractive && isatty(0) == 1 }

    /// Shows lines and asks a question. Any answer but yes means no.
    func isConfirmed(_ lines: [String], _ question: String) async throws -> Bool {
        tcflush(0, TCIFLUSH)
        note((lines + ["\(question) [y/N]"]).joined(separator: "\n"))
        let answer = try await StandardInput().line(most: 1_024) ?? []
        return ["y", "yes"].contains(String(decoding: answer, as: UTF8.self).lowercased())
    }
}
