// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import Logging
import Synchronization

/// The log of a process: its format, and its level, which may change while it runs.
package final class LogOutput: Sendable {
    private static let levels = Logger.Level.allCases

    private let format: LogFormat
    private let number: Atomic<Int>
    private let write: @Sendable (String) -> Void

    /// - Parameter write: Takes a whole line without its end. Called from any thread.
    package init(_ format: LogFormat, level: Logger.Level, write: @escaping @Sendable (String) -> Void) {
        self.format = format
        self.number = Atomic(Self.number(of: level))
        self.write = write
    }

    package var level: Logger.Level {
        get { Self.levels[number.load(ordering: .relaxed)] }
        set { number.store(Self.number(of: newValue), ordering: .relaxed) }
    }

    private static func number(of level: Logger.Level) -> Int { levels.firstIndex(of: level) ?? 0 }

    fileprivate func write(_ level: Logger.Level, _ message: String, _ fields: [(name: String, value: String)]) {
        write(format.line(Date(), level: level.rawValue, message, fields))
    }
}

/// Writes each event as one line, in the format and from the level of its output.
package struct RelayLogHandler: LogHandler {
    private let output: LogOutput
    package var metadata: Logger.Metadata = [:]
    /// The level of a logger that does not follow the output's.
    private var ownLevel: Logger.Level?

    package init(_ output: LogOutput) { self.output = output }

    package var logLevel: Logger.Level {
        get { ownLevel ?? output.level }
        set { ownLevel = newValue }
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        var fields = metadata
        if let more = event.metadata { fields.merge(more) { $1 } }
        if let error = event.error { fields["error"] = "\(error)" }
        output.write(event.level, event.message.description, Self.ordered(fields))
    }

    /// The address comes first, so that a filter for failed sign-ins reads it behind constant text. The others follow by name.
    private static func ordered(_ metadata: Logger.Metadata) -> [(name: String, value: String)] {
        metadata.map { (name: $0.key, value: $0.value.description) }.sorted { left, right in
            left.name != right.name && (left.name == "address" || (right.name != "address" && left.name < right.name))
        }
    }
}
