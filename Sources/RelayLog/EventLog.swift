// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import CoreMetrics
package import Logging
import Synchronization

/// Logs and counts the events of a relay.
///
/// Anyone on the network can cause the lines of failures. At most `failuresPerSecond` of them are written in a second; the next line says
/// how many were left out. All of them are counted.
package final class EventLog: Sendable {
    static let failuresPerSecond = 3

    private struct Window {
        var second: Int64 = 0
        var written = 0
        var leftOut = 0
    }

    private let logger: Logger
    private let metrics: any MetricsFactory
    private let uptime: @Sendable () -> Duration
    private let window = Mutex(Window())

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
            guard let count = admit() else { return }
            leftOut = count
        case .refused:
            guard let count = admit() else { return }
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

    /// - Returns: How many lines were left out before this one; `nil` if it is left out too.
    private func admit() -> Int? {
        let second = uptime().components.seconds
        return window.withLock { window in
            if window.second != second { (window.second, window.written) = (second, 0) }
            guard window.written < Self.failuresPerSecond else {
                window.leftOut += 1
                return nil
            }
            window.written += 1
            defer { window.leftOut = 0 }
            return window.leftOut
        }
    }
}
