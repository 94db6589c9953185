// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import CoreMetrics
import RelayServer
import Testing

@Suite struct PrometheusMetricsTests {
    @Test func everyKindOfMetricIsExported() {
        let metrics = PrometheusMetrics()
        Counter(label: "b.requests", dimensions: [("status", "404"), ("path", "a\"b\\c\nd")], factory: metrics).increment(by: 3)
        Counter(label: "b.requests", factory: metrics).increment()
        Gauge(label: "a_gauge", factory: metrics).record(2.5)
        Timer(label: "c_seconds", factory: metrics).recordNanoseconds(1_500_000_000)
        Timer(label: "c_seconds", factory: metrics).recordNanoseconds(500_000_000)
        #expect(
            metrics.text == """
                # TYPE a_gauge gauge
                a_gauge 2.5
                # TYPE b_requests counter
                b_requests 1
                b_requests{path="a\\"b\\\\c\\nd",status="404"} 3
                # TYPE c_seconds summary
                c_seconds_sum 2
                c_seconds_count 2

                """
        )
    }

    @Test func destroyedMetricIsNotExported() {
        let metrics = PrometheusMetrics()
        let counter = Counter(label: "a", factory: metrics)
        counter.increment()
        counter.destroy()
        #expect(metrics.text.isEmpty)
    }
}
