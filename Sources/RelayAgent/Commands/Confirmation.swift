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
    /// Whether there is a person who can be shown something and asked about it.
    var canAsk: Bool { !isJSON && isInteractive && isatty(0) == 1 }

    /// Shows something and asks about it. Anything but a yes is a no.
    func isConfirmed(_ lines: [String], _ question: String) async throws -> Bool {
        tcflush(0, TCIFLUSH)
        note((lines + ["\(question) [y/N]"]).joined(separator: "\n"))
        let answer = try await StandardInput().line(most: 1_024) ?? []
        return ["y", "yes"].contains(String(decoding: answer, as: UTF8.self).lowercased())
    }
}
