// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Logging
import Synchronization

/// Keeps each line with its metadata.
package final class CapturedLog: LogHandler {
    private let kept = Mutex<[String]>([])

    package init() {}

    package var lines: [String] { kept.withLock { $0 } }

    package func log(event: LogEvent) { kept.withLock { $0.append("\(event.level) \(event.message) \(event.metadata ?? [:])") } }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { nil }
        set {}
    }

    package var metadata: Logger.Metadata {
        get { [:] }
        set {}
    }

    package var logLevel: Logger.Level {
        get { .trace }
        set {}
    }
}
