// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// A command that a sender is ordered to submit.
struct Errand: Codable, Hashable, Sendable {
    /// The number of the order, which the launch's URI or the message carries.
    var number: Int
    var sender: Int
    var target: Int
    var isMessage: Bool
    /// The time to live, in milliseconds.
    var life: Int
    /// The time from submission to cancellation, in milliseconds.
    var cancelAfter: Int?

    /// The handler's answer to it.
    static func answer(to number: Int, isMessage: Bool) -> Ending {
        switch number % 25 {
        case 3: .declined
        case 9: .failed
        case 17: isMessage ? .failed : .unsupported
        default: .succeeded
        }
    }
}

/// The outcome of a command.
enum Ending: String, Codable, CaseIterable, Sendable {
    // The handler answered.
    case succeeded, declined, unsupported, failed
    // It did not run.
    case expired, cancelled
    // It may have run.
    case interrupted, timedOut, forgotten, targetLost
    // The relay never accepted it.
    case withdrawn, refused

    var isHandlers: Bool { [.succeeded, .declined, .unsupported, .failed].contains(self) }
    var hasNotRun: Bool { [.expired, .cancelled, .withdrawn, .refused].contains(self) }
}

/// What a sender learned about a command's outcome.
struct Learned: Codable, Hashable, Sendable {
    var ending: Ending
    /// Whether the target attests it, rather than the relay.
    var byTarget: Bool
    /// The number in the answer to a message.
    var answer: Int?
    /// The reason of a rejection.
    var reason: String?
}

/// A report of a process. The process waits until the driver has recorded it.
enum Report: Codable, Sendable {
    struct Found: Codable, Hashable, Sendable {
        var command: String
        /// The endpoint of the target.
        var endpoint: String
        var expires: Int64
    }

    /// The process has started, with this endpoint.
    case ready(endpoint: String)
    /// The commands that a sender finds in its storage when it starts.
    case found([Found])
    /// A command was stored under this id.
    case submitted(issue: Int, command: String, expires: Int64)
    /// A command was not stored and will not be.
    case notSubmitted(issue: Int, reason: String)
    /// The relay accepted a command.
    case accepted(command: String)
    /// A command ended.
    case ended(command: String, Learned)
    /// A handler started at this time, in milliseconds since 1970.
    case started(issue: Int, at: Int64)
    /// A handler is about to give this answer.
    case handled(issue: Int, Ending)
    /// All devices are approved.
    case approved
    /// A target has handled all that waited, and may be stopped.
    case drowsy
}

/// A report with its sequence number since the process started.
struct NumberedReport: Codable, Sendable {
    var number: Int
    var report: Report
}

/// An order for a process.
enum Order: Codable, Sendable {
    /// The report with this number is recorded.
    case goOn(Int)
    /// Submit a command for the target with this endpoint.
    case submit(Errand, endpoint: String)
    case networkChanged
    /// Approve all devices, and report it.
    case approve
    /// A push notification has come, with this data.
    case notify([String: String])
    /// Handle what waits, and report it.
    case fallAsleep
    case stop
}

/// One JSON text for each line.
enum Line {
    static func encode(_ value: some Encodable) throws -> Data { try JSONEncoder().encode(value) + [UInt8(ascii: "\n")] }

    /// Reads lines to the end on its own thread, because a blocking read must not block the test's threads.
    static func read<Value: Decodable & Sendable>(_ handle: FileHandle, as type: Value.Type, _ take: @escaping @Sendable (Value?) -> Void) {
        Thread.detachNewThread {
            var rest = Data()
            var chunk = [UInt8](repeating: 0, count: 64 << 10)
            while true {
                let count = Foundation.read(handle.fileDescriptor, &chunk, chunk.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { break }
                rest += chunk[..<count]
                while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                    // The last line of a killed process may be incomplete.
                    if let value = try? JSONDecoder().decode(type, from: rest[..<end]) { take(value) }
                    rest = Data(rest[(end + 1)...])
                }
            }
            take(nil)
        }
    }
}

/// Milliseconds since 1970.
func wallTime() -> Int64 { Int64(Date().timeIntervalSince1970 * 1_000) }
