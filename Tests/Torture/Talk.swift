// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// One command that a sender shall issue.
struct Errand: Codable, Hashable, Sendable {
    /// The id of the one who asks for it: in the launch's URI, or in the message.
    var number: Int
    var sender: Int
    var target: Int
    var isMessage: Bool
    /// How long it may live, in milliseconds.
    var life: Int
    /// When it is cancelled, in milliseconds after it was submitted.
    var cancelAfter: Int?

    /// What the handler answers to it.
    static func answer(to number: Int, isMessage: Bool) -> Ending {
        switch number % 25 {
        case 3: .declined
        case 9: .failed
        case 17: isMessage ? .failed : .unsupported
        default: .succeeded
        }
    }
}

/// How a command ended.
enum Ending: String, Codable, CaseIterable, Sendable {
    // The handler's word.
    case succeeded, declined, unsupported, failed
    // It has not run.
    case expired, cancelled
    // It may have run.
    case interrupted, timedOut, targetLost
    // The relay never had it.
    case withdrawn, refused

    var isHandlers: Bool { [.succeeded, .declined, .unsupported, .failed].contains(self) }
    var hasNotRun: Bool { [.expired, .cancelled, .withdrawn, .refused].contains(self) }
}

/// What a sender has learned of a command's end.
struct Learned: Codable, Hashable, Sendable {
    var ending: Ending
    /// The target attests it, not the relay.
    var byTarget: Bool
    /// The number in a message's answer.
    var answer: Int?
    /// Why it was refused.
    var reason: String?
}

/// What a process tells. It goes on when the driver has it in the ledger.
enum Report: Codable, Sendable {
    struct Found: Codable, Hashable, Sendable {
        var command: String
        /// The target's endpoint.
        var endpoint: String
        var expires: Int64
    }

    /// It is there, and this is its endpoint.
    case ready(endpoint: String)
    /// What a sender finds in its storage when it starts.
    case found([Found])
    /// A command is stored, and this is its id.
    case submitted(issue: Int, command: String, expires: Int64)
    /// It is not, and never will be.
    case notSubmitted(issue: Int, reason: String)
    /// The relay has a command.
    case accepted(command: String)
    /// A command has ended.
    case ended(command: String, Learned)
    /// A handler begins, at this time in milliseconds since 1970.
    case started(issue: Int, at: Int64)
    /// A handler will answer this.
    case handled(issue: Int, Ending)
}

/// A report, with its number in the process's life.
struct NumberedReport: Codable, Sendable {
    var number: Int
    var report: Report
}

/// What a process is told.
enum Order: Codable, Sendable {
    /// The report of this number is in the ledger.
    case goOn(Int)
    /// Issue a command for the target with this endpoint.
    case submit(Errand, endpoint: String)
    case networkChanged
    case stop
}

/// One JSON text a line.
enum Line {
    static func encode(_ value: some Encodable) throws -> Data { try JSONEncoder().encode(value) + [UInt8(ascii: "\n")] }

    /// Reads lines until the end, on a thread of its own: whoever waits for one must not keep what it waits for from running.
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
                    // The last line of a process that was killed may be half a one.
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
