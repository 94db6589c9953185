// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Subprocess

/// Reads the output of a program with a size limit.
struct OutputReader {
    private var source: SubprocessOutputSequence.Iterator
    private var rest: [UInt8] = []
    private var hasEnded = false

    init(_ output: SubprocessOutputSequence) { source = output.makeAsyncIterator() }

    /// Reads to the end.
    /// - Throws: `tooMuchOutput` if the output exceeds the limit.
    mutating func all(limit: Int, isolation: isolated (any Actor)? = #isolation) async throws -> [UInt8] {
        while try await read() {
            guard rest.count <= limit else { throw ProgramFailure.tooMuchOutput }
        }
        return rest
    }

    /// The next line, without its terminator; a last line needs none. `nil` at the end.
    /// - Throws: `tooMuchOutput` if the line exceeds the limit.
    mutating func line(limit: Int, isolation: isolated (any Actor)? = #isolation) async throws -> [UInt8]? {
        var searched = 0
        while true {
            if let end = rest[searched...].firstIndex(of: UInt8(ascii: "\n")) {
                guard end <= limit else { throw ProgramFailure.tooMuchOutput }
                defer { rest.removeFirst(end + 1) }
                return Array(rest[..<end])
            }
            searched = rest.count
            guard searched <= limit else { throw ProgramFailure.tooMuchOutput }
            guard try await read() else {
                defer { rest = [] }
                return rest.isEmpty ? nil : rest
            }
        }
    }

    /// Drops buffered bytes that have not been returned.
    mutating func drop() { rest = [] }

    private mutating func read(isolation: isolated (any Actor)? = #isolation) async throws -> Bool {
        guard !hasEnded, let buffer = try await source.next(isolation: isolation) else {
            hasEnded = true
            return false
        }
        buffer.withUnsafeBytes { rest.append(contentsOf: $0) }
        return true
    }
}
