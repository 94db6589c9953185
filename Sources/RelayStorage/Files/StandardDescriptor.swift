// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// What a program writes to: standard output and standard error, unbuffered.
package enum StandardDescriptor: Int32, Sendable {
    case output = 1
    case error = 2

    /// The standard streams that were closed at the start of the process. They lead to `/dev/null` now: otherwise the next opened file would
    /// get their number, and their output.
    private static let closedAtStart: [Int32] = {
        let closed = (Int32(0)...2).filter { fcntl($0, F_GETFD) == -1 }
        for _ in closed { _ = open("/dev/null", O_RDWR) }
        return closed
    }()

    /// Opens the standard streams that are closed. Called before the program opens anything else.
    package static func openClosed() { _ = closedAtStart }

    package var isTerminal: Bool { isatty(rawValue) == 1 }

    /// Writes all bytes.
    package func write(_ bytes: some Sequence<UInt8>) throws(OutputError) {
        guard !Self.closedAtStart.contains(rawValue) else { throw OutputError(number: EBADF) }
        var bytes = Array(bytes)[...]
        while !bytes.isEmpty {
            #if canImport(Darwin)
            let count = bytes.withUnsafeBytes { Darwin.write(rawValue, $0.baseAddress, $0.count) }
            #elseif canImport(Glibc)
            let count = bytes.withUnsafeBytes { Glibc.write(rawValue, $0.baseAddress, $0.count) }
            #else
            let count = bytes.withUnsafeBytes { Musl.write(rawValue, $0.baseAddress, $0.count) }
            #endif
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw OutputError(number: count < 0 ? errno : EIO) }
            bytes = bytes.dropFirst(count)
        }
    }
}

/// The output of a program was not written, or not all of it.
package struct OutputError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The system's error number.
    let number: Int32

    /// Whether the reader of a pipe has ended, such as `head`. It misses nothing, so this is not reported.
    package var isReaderGone: Bool { number == EPIPE }

    package var description: String {
        "cannot write the output: " + (number == EBADF ? "standard output is closed" : String(cString: strerror(number)))
    }
}
