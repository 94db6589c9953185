// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// The alerts and the dashboard in `deploy`, with the metrics of a real relay.
extension MetricsTests {
    private static let deploy = URL(filePath: #filePath).appending(path: "../../../../deploy").standardizedFileURL
    private static let promtool = "/usr/bin/promtool"
    static let hasPromtool = FileManager.default.isExecutableFile(atPath: promtool)

    private static func text(_ name: String) throws -> String {
        try String(contentsOf: deploy.appending(path: name), encoding: .utf8)
    }

    private static func promtool(_ arguments: String...) async throws -> ProcessRun.Ended {
        let process = Process()
        process.executableURL = URL(filePath: promtool)
        process.arguments = arguments
        return try await ProcessRun.run(process)
    }

    private struct Dashboard: Decodable {
        struct Panel: Decodable {
            struct Target: Decodable { var expr: String }
            var title: String
            var targets: [Target]
        }
        var panels: [Panel]
    }

    private static func queries() throws -> [(place: String, text: String)] {
        let dashboard = try JSONDecoder().decode(Dashboard.self, from: Data(try text("grafana-dashboard.json").utf8))
        let panels = dashboard.panels.flatMap { panel in panel.targets.map { (place: panel.title, text: $0.expr) } }
        let alerts = try text("alerts.yml").matches(of: /alert: (?<name>\w+)\n(?:.*\n)*?        expr: (?<text>(?:\|\n +)?.*)\n/)
        return panels + alerts.map { (place: String($0.name), text: String($0.text.trimmingPrefix(/\|\n +/))) }
    }

    /// Words of the query that are no metrics: those of the language, labels, and what stands in quotes.
    private static func metrics(in query: String) -> Set<String> {
        let plain = query.replacing(/"[^"]*"/, with: "").replacing(/\b(by|on|without) *\([^)]*\)/, with: "").replacing(
            /\{[^}]*\}/,
            with: ""
        )
        return Set(plain.matches(of: /\b[a-z]+(_[a-z0-9]+)+\b/).map { String($0.output.0) }).subtracting(["histogram_quantile"])
    }

    @Test func alertsAndDashboardUseMetricsThatThereAre() async throws {
        let described = Set(
            try await metrics().split(separator: "\n").filter { $0.hasPrefix("# HELP ") }.map { $0.split(separator: " ")[2] }.map(
                String.init
            )
        )
        let queries = try Self.queries()
        #expect(queries.count >= 12 + 22)
        for (place, query) in queries {
            let used = Self.metrics(in: query)
            #expect(!used.isEmpty || query.hasPrefix("up{"), "\(place)")
            for name in used {
                #expect(described.contains(name.replacing(/_bucket$/, with: "")), "\(place): there is no \(name)")
            }
        }
    }

    /// The page lists the alerts.
    @Test func theDocumentsListTheAlerts() throws {
        let document = try String(contentsOf: Self.deploy.appending(path: "../docs/operating.md"), encoding: .utf8)
        let alerts = Set(try Self.text("alerts.yml").matches(of: /alert: (?<name>\w+)/).map { String($0.name) })
        let listed = document.matches(of: /`(?<name>Relay[A-Z]\w+)`/).map { String($0.name) }
        #expect(alerts.count == 12)
        #expect(Set(listed) == alerts && listed.count == alerts.count)
    }

    @Test(.enabled(if: MetricsTests.hasPromtool, "needs Debian's package prometheus"))
    func prometheusTakesTheAlerts() async throws {
        let checked = try await Self.promtool("check", "rules", Self.deploy.appending(path: "alerts.yml").path)
        #expect(checked.status == 0, "\(checked)")
    }

    /// Each query of the dashboard is one of Prometheus, which ends with an error if it is not.
    @Test(.enabled(if: MetricsTests.hasPromtool, "needs Debian's package prometheus"))
    func prometheusTakesTheQueries() async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "queries-\(UUID().uuidString).yml")
        defer { try? FileManager.default.removeItem(at: file) }
        var rules = "groups:\n  - name: dashboard\n    rules:\n"
        for (number, query) in try Self.queries().enumerated() {
            rules += "      - record: query:\(number)\n        expr: '\(query.text.replacing("$instance", with: ".*"))'\n"
        }
        try Data(rules.utf8).write(to: file)
        let checked = try await Self.promtool("check", "rules", file.path)
        #expect(checked.status == 0, "\(checked)")
    }

    /// Series of values, one a minute, in the notation of promtool: with the first ones the alert fires, with the second ones it does not.
    private struct Case {
        var alert: String
        var series: String
        var fires: String
        var stays: String
        /// Series that are the same in both.
        var others: [(name: String, values: String)] = []
    }

    private static let cases = [
        Case(alert: "RelayDown", series: "up", fires: "0x120", stays: "1x120"),
        Case(alert: "RelayCannotStore", series: "relay_store_writable", fires: "0x120", stays: "1x120"),
        Case(alert: "RelayCommitsFail", series: "relay_store_commit_failures_total", fires: "0+1x120", stays: "5x120"),
        Case(
            alert: "RelayCommitsSlow",
            series: "relay_store_commit_seconds_bucket{le=\"0.1\"}",
            fires: "0+1x120",
            stays: "0+100x120",
            others: ["1", "+Inf"].map { ("relay_store_commit_seconds_bucket{le=\"\($0)\"}", "0+100x120") }
        ),
        Case(
            alert: "RelayCertificateExpires",
            series: "relay_certificate_expiry_timestamp_seconds",
            fires: "500000x120",
            stays: "5000000x120"
        ),
        Case(
            alert: "RelayFilesRunOut",
            series: "process_open_fds",
            fires: "900x120",
            stays: "100x120",
            others: [("process_max_fds", "1000x120")]
        ),
        Case(alert: "RelayRestarts", series: "process_start_time_seconds", fires: "1+10x120", stays: "1x120"),
        Case(
            alert: "RelaySignInsFail",
            series: "relay_sign_in_failures_total{reason=\"wrongCredentials\"}",
            fires: "0+20x120",
            stays: "0+1x120"
        ),
        Case(alert: "RelayConnectionsRejected", series: "relay_connections_rejected_total", fires: "0+120x120", stays: "0+6x120"),
        Case(
            alert: "RelayIssuerFails",
            series: "relay_issuer_failures_total{issuer=\"https://login.example\"}",
            fires: "0+1x120",
            stays: "9x120"
        ),
        Case(
            alert: "RelayPushFails",
            series: "relay_push_attempts_total{service=\"apns\",outcome=\"credentialRejected\"}",
            fires: "0+1x120",
            stays: "4x120"
        ),
        Case(alert: "RelayNodeSuspended", series: "relay_node_suspended", fires: "1x120", stays: "0x120"),
    ]

    /// Each alert fires, and each one is silent when all is well, by Prometheus's own evaluation.
    @Test(.enabled(if: MetricsTests.hasPromtool, "needs Debian's package prometheus"))
    func alertsFireWhenTheyShouldAndOnlyThen() async throws {
        let names = try Self.text("alerts.yml").matches(of: /alert: (?<name>\w+)/).map { String($0.name) }
        #expect(names == Self.cases.map(\.alert))
        let file = FileManager.default.temporaryDirectory.appending(path: "alerts-\(UUID().uuidString).yml")
        defer { try? FileManager.default.removeItem(at: file) }
        for one in Self.cases {
            for (values, isFiring) in [(one.fires, true), (one.stays, false)] {
                var text = "rule_files:\n  - \(Self.deploy.appending(path: "alerts.yml").path)\nevaluation_interval: 1m\n"
                text += "tests:\n  - interval: 1m\n    input_series:\n"
                for (name, values) in [(one.series, values)] + one.others {
                    let labels = "job=\"relayd\",instance=\"relay\""
                    let series = name.hasSuffix("}") ? name.replacing("{", with: "{\(labels),") : "\(name){\(labels)}"
                    text += "      - series: '\(series)'\n        values: '\(values)'\n"
                }
                text +=
                    "    promql_expr_test:\n      - expr: 'count(ALERTS{alertstate=\"firing\"}) by (alertname)'\n        eval_time: 110m\n"
                if isFiring { text += "        exp_samples:\n          - labels: '{alertname=\"\(one.alert)\"}'\n            value: 1\n" }
                try Data(text.utf8).write(to: file)
                let ended = try await Self.promtool("test", "rules", file.path)
                #expect(ended.status == 0, "\(one.alert), \(isFiring): \(ended)")
            }
        }
    }
}
