// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import CoreMetrics
package import Logging
import Synchronization

/// Logs and counts the events of a relay.
///
/// Anyone on the network can cause the lines of failures. At most `failuresPerSecond` of each kind are written in a second, so that a flood of one
/// kind hides nothing of the other; the next line of the kind says how many were left out. All of them are counted.
package final class EventLog: Sendable {
    static let failuresPerSecond = 3

    private struct Window {
        private var second: Int64 = 0
        private var written = 0
        private var leftOut = 0

        /// - Returns: How many lines were left out before this one; `nil` if it is left out too.
        mutating func admit(at second: Int64) -> Int? {
            if self.second != second { (self.second, written) = (second, 0) }
            guard written < EventLog.failuresPerSecond else {
                leftOut += 1
                return nil
            }
            written += 1
            defer { leftOut = 0 }
            return leftOut
        }
    }

    private struct Windows {
        var signIns = Window()
        var devices = Window()
    }

    private let logger: Logger
    private let metrics: any MetricsFactory
    private let uptime: @Sendable () -> Duration
    private let windows = Mutex(Windows())

    /// - Parameter uptime: A clock that does not go back.
    package init(
        logger: Logger,
        metrics: any MetricsFactory,
        uptime: @escaping @Sendable () -> Duration = { [start = ContinuousClock.now] in ContinuousClock.now - start }
    ) {
        self.logger = logger
        self.metrics = metrics
        self.uptime = uptime
        // A metric that exists from the start shows its first increase.
        for method in RelayEvent.Method.allCases {
            succeeded(method).increment(by: 0)
            for reason in RelayEvent.Failure.allCases { failed(method, reason).increment(by: 0) }
        }
    }

    package func record(_ event: RelayEvent) {
        var leftOut = 0
        switch event {
        case .signedIn(_, let method, _, _): succeeded(method).increment()
        case .signInFailed(_, let method, _, let reason):
            failed(method, reason).increment()
            guard let count = admit(\.signIns) else { return }
            leftOut = count
        case .refused:
            guard let count = admit(\.devices) else { return }
            leftOut = count
        default: break
        }
        var metadata = event.fields.mapValues { Logger.MetadataValue.string($0) }
        if leftOut > 0 { metadata["leftOut"] = "\(leftOut)" }
        logger.log(level: event.level, "\(event.message)", metadata: metadata)
    }

    private func succeeded(_ method: RelayEvent.Method) -> Counter {
        Counter(label: "relay_sign_ins_total", dimensions: [("method", method.rawValue)], factory: metrics)
    }

    private func failed(_ method: RelayEvent.Method, _ reason: RelayEvent.Failure) -> Counter {
        let dimensions = [("method", method.rawValue), ("reason", reason.rawValue)]
        return Counter(label: "relay_sign_in_failures_total", dimensions: dimensions, factory: metrics)
    }

    private func admit(_ kind: WritableKeyPath<Windows, Window>) -> Int? {
        let second = uptime().components.seconds
        return windows.withLock { $0[keyPath: kind].admit(at: second) }
    }
}
