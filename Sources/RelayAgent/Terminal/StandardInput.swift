// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Dispatch
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Reads standard input on its own thread: a wait for input can be cancelled, a blocking read cannot.
final class StandardInput: Sendable {
    private struct State {
        var bytes: [UInt8] = []
        var lines = 0
        var isAtEnd = false
    }

    private let queue = DispatchQueue(label: "standard input")
    private let state = Mutex(State())

    /// The number of the line that was read last.
    var lineNumber: Int { state.withLock(\.lines) }

    /// The next line, without its terminator; `nil` at the end of the input or after a cancellation.
    /// - Parameters:
    ///   - what: What the line is, for the error, such as `a message`.
    ///   - most: The limit in bytes.
    /// - Throws: `messageTooLarge` if the line exceeds the limit.
    func line(_ what: String = "a line", most: Int) async throws -> [UInt8]? {
        try await read { state in
            state.lines += 1
            var searched = 0
            while true {
                if let end = state.bytes[searched...].firstIndex(of: UInt8(ascii: "\n")) {
                    defer { state.bytes.removeSubrange(...end) }
                    return Array(state.bytes[..<end])
                }
                searched = state.bytes.count
                guard searched <= most else { throw Self.tooLong(what, most) }
                guard Self.readMore(into: &state) else {
                    defer { state.bytes = [] }
                    return state.bytes.isEmpty ? nil : state.bytes
                }
            }
        }
    }

    /// The input up to its end; `nil` after a cancellation.
    /// - Throws: `messageTooLarge` if it exceeds the limit.
    func all(_ what: String, most: Int) async throws -> [UInt8]? {
        try await read { state in
            while state.bytes.count <= most { guard Self.readMore(into: &state) else { return state.bytes } }
            throw Self.tooLong(what, most)
        }
    }

    /// The next part of the input, as it comes; `nil` at its end or after a cancellation.
    /// - Parameter most: The size of the part in bytes, at least 1.
    func some(most: Int) async throws -> [UInt8]? {
        try await read { state in
            if state.bytes.isEmpty, !Self.readMore(into: &state) { return nil }
            defer { state.bytes.removeFirst(min(most, state.bytes.count)) }
            return Array(state.bytes.prefix(most))
        }
    }

    private func read(_ body: @escaping @Sendable (inout State) throws -> [UInt8]?) async throws -> [UInt8]? {
        let result = OneShot<Result<[UInt8]?, any Error>>()
        queue.async { result.settle(Result { try self.state.withLock { try body(&$0) } }) }
        return try await result.wait()?.get()
    }

    /// - Returns: Whether there was more input.
    private static func readMore(into state: inout State) -> Bool {
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        while !state.isAtEnd {
            #if canImport(Darwin)
            let count = chunk.withUnsafeMutableBytes { Darwin.read(0, $0.baseAddress, $0.count) }
            #elseif canImport(Glibc)
            let count = chunk.withUnsafeMutableBytes { Glibc.read(0, $0.baseAddress, $0.count) }
            #else
            let count = chunk.withUnsafeMutableBytes { Musl.read(0, $0.baseAddress, $0.count) }
            #endif
            if count < 0, errno == EINTR { continue }
            state.isAtEnd = count <= 0
            if count > 0 {
                state.bytes += chunk[..<count]
                return true
            }
        }
        return false
    }

    private static func tooLong(_ what: String, _ most: Int) -> AgentError {
        let limit = most < 1 << 20 ? "\(most >> 10) KiB" : "\(most >> 20) MiB"
        return AgentError("messageTooLarge", "\(what) on standard input may have at most \(limit)", .usage)
    }
}
