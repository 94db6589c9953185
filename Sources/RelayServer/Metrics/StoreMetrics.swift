// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import CoreMetrics

/// The metrics of the store's commits.
package struct StoreMetrics: Sendable {
    private let seconds: Timer
    private let transactions: Counter
    private let failures: Counter

    package init(factory: any MetricsFactory = NOOPMetricsHandler.instance) {
        seconds = Timer(label: "relay_store_commit_seconds", factory: factory)
        transactions = Counter(label: "relay_store_transactions_total", factory: factory)
        transactions.increment(by: 0)
        failures = Counter(label: "relay_store_commit_failures_total", factory: factory)
        failures.increment(by: 0)
    }

    /// - Parameter count: How many transactions share the commit.
    func committed(_ count: Int, in time: Duration, isStored: Bool) {
        guard isStored else { return failures.increment() }
        seconds.recordNanoseconds(time.nanoseconds)
        transactions.increment(by: Int64(count))
    }
}

/// The metrics of the issuers that the relay trusts.
package struct IssuerMetrics: Sendable {
    private let factory: any MetricsFactory

    package init(factory: any MetricsFactory = NOOPMetricsHandler.instance) { self.factory = factory }

    /// - Parameter error: An error that this relay defines.
    func refusedToken(_ error: TokenError) {
        Counter(label: "relay_tokens_refused_total", dimensions: [("error", "\(error)")], factory: factory).increment()
    }

    /// - Parameters:
    ///   - issuer: The issuer's key: a URL of the settings.
    ///   - failure: The kind of failure; `nil` if it has answered.
    func asked(_ issuer: String, took time: Duration, failure: String?) {
        Timer(label: "relay_issuer_request_seconds", dimensions: [("issuer", issuer)], factory: factory).recordNanoseconds(time.nanoseconds)
        guard let failure else { return }
        let dimensions = [("issuer", issuer), ("reason", failure)]
        Counter(label: "relay_issuer_failures_total", dimensions: dimensions, factory: factory).increment()
    }
}

extension Duration {
    /// Whole nanoseconds, for metrics.
    var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds.multipliedReportingOverflow(by: 1_000_000_000).partialValue &+ attoseconds / 1_000_000_000
    }
}
