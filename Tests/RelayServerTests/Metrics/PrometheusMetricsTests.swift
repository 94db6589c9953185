// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import CoreMetrics
import RelayServer
import Testing

@Suite struct PrometheusMetricsTests {
    @Test func everyKindOfMetricIsExported() async {
        let metrics = PrometheusMetrics(known: [
            MetricDescription("d_total", .counter, "Never counted."), .init("a_gauge", .gauge, "A gauge."),
        ])
        Counter(label: "b.requests", dimensions: [("status", "404"), ("path", "a\"b\\c\nd")], factory: metrics).increment(by: 3)
        Counter(label: "b.requests", factory: metrics).increment()
        Gauge(label: "a_gauge", factory: metrics).record(2.5)
        for nanoseconds in [1_500_000_000, 500_000_000, 700_000, 60_000_000_000] as [Int64] {
            Timer(label: "c_seconds", dimensions: [("way", "x")], factory: metrics).recordNanoseconds(nanoseconds)
        }
        metrics.add { [MetricSample("e_bytes", 7, labels: [("of", "y")])] }
        #expect(
            await metrics.current() == """
                # HELP a_gauge A gauge.
                # TYPE a_gauge gauge
                a_gauge 2.5
                # TYPE b_requests counter
                b_requests 1
                b_requests{path="a\\"b\\\\c\\nd",status="404"} 3
                # TYPE c_seconds histogram
                c_seconds_bucket{way="x",le="0.0005"} 0
                c_seconds_bucket{way="x",le="0.001"} 1
                c_seconds_bucket{way="x",le="0.0025"} 1
                c_seconds_bucket{way="x",le="0.005"} 1
                c_seconds_bucket{way="x",le="0.01"} 1
                c_seconds_bucket{way="x",le="0.025"} 1
                c_seconds_bucket{way="x",le="0.05"} 1
                c_seconds_bucket{way="x",le="0.1"} 1
                c_seconds_bucket{way="x",le="0.25"} 1
                c_seconds_bucket{way="x",le="0.5"} 2
                c_seconds_bucket{way="x",le="1"} 2
                c_seconds_bucket{way="x",le="2.5"} 3
                c_seconds_bucket{way="x",le="5"} 3
                c_seconds_bucket{way="x",le="10"} 3
                c_seconds_bucket{way="x",le="+Inf"} 4
                c_seconds_sum{way="x"} 62.0007
                c_seconds_count{way="x"} 4
                # HELP d_total Never counted.
                # TYPE d_total counter
                # TYPE e_bytes gauge
                e_bytes{of="y"} 7

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
