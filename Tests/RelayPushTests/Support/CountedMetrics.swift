// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import CoreMetrics
import Synchronization

/// Keeps the counters, by name and dimensions.
final class CountedMetrics: MetricsFactory {
    private final class Handler: CounterHandler {
        let add: @Sendable (Int64) -> Void

        init(add: @escaping @Sendable (Int64) -> Void) { self.add = add }

        func increment(by amount: Int64) { add(amount) }
        func reset() {}
    }

    private let kept = Mutex<[String: Int64]>([:])

    var counts: [String: Int64] { kept.withLock { $0 } }

    func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        let name = ([label] + dimensions.map { "\($0)=\($1)" }.sorted()).joined(separator: " ")
        return Handler { [self] amount in kept.withLock { $0[name, default: 0] += amount } }
    }

    func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        NOOPMetricsHandler.instance
    }

    func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler { NOOPMetricsHandler.instance }
    func destroyCounter(_ handler: any CounterHandler) {}
    func destroyRecorder(_ handler: any RecorderHandler) {}
    func destroyTimer(_ handler: any TimerHandler) {}
}
