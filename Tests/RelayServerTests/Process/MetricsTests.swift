// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// The metrics of a real relay.
@Suite(.timeLimit(.minutes(10))) struct MetricsTests {
    /// A relay with two endpoints, a command that waits, a failed sign-in and a refused token.
    func metrics(at ownPort: Int? = nil, _ arguments: [String] = []) async throws -> String {
        let port = try FreePort.take()
        let relayd = try await RelaydProcess(port: ownPort, arguments: ["--metrics-listen", "127.0.0.1:\(port)"] + arguments)
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
        let (phone, pc) = (WireEndpoint("Phone", at: relayd), WireEndpoint("PC", at: relayd))
        for endpoint in [phone, pc] {
            try await endpoint.join(try await relayd.run("invite", "Anna"))
            try await endpoint.connect()
        }
        _ = try await pc.publish("org.example.player")
        await pc.disconnect()
        _ = try await phone.send(try phone.launch("https://example.org", on: pc, number: 1))
        let browser = SignInBrowser(origin: relayd.origin)
        _ = try await browser.get("/auth/login")
        _ = try await browser.post("/auth/login", ["name": "Anna", "password": "wrong wrong wrong"])
        let thief = WireEndpoint("Thief", at: relayd)
        thief.steal(from: phone)
        _ = try await thief.greet(role: .host)
        let socket = try await TestSocket(port: port)
        try await socket.send("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nConnection: close\r\n\r\n")
        let answer = await socket.textUntilClosed()
        #expect(try await relayd.stop() == 0)
        guard let end = answer.range(of: "\r\n\r\n") else { throw WireEndpoint.Unexpected(message: answer) }
        return String(answer[end.upperBound...])
    }

    private func value(_ series: String, in text: String) -> Double? {
        text.split(separator: "\n").first { $0.hasPrefix(series + " ") }.flatMap { Double($0.dropFirst(series.count + 1)) }
    }

    @Test func metricsSayWhatTheRelayDoes() async throws {
        let text = try await metrics()
        #expect(value("relay_accounts", in: text) == 2)
        #expect(value("relay_endpoints", in: text) == 2)
        #expect(value("relay_waiting_commands", in: text) == 1)
        #expect(value("relay_waiting_command_bytes", in: text) ?? 0 > 100)
        #expect(value("relay_store_writable", in: text) == 1)
        #expect(value("relay_store_database_bytes", in: text) ?? 0 > 4_096)
        #expect(value("relay_store_commit_seconds_count", in: text) ?? 0 > 4)
        #expect(value("relay_store_transactions_total", in: text) ?? 0 >= value("relay_store_commit_seconds_count", in: text) ?? 9)
        #expect(value("relay_store_commit_failures_total", in: text) == 0)
        #expect(value("relay_hello_seconds_count", in: text) == 2)
        // The thief's; the first hellos of the devices, which ask for their account, are none.
        let rejected = text.split(separator: "\n").filter { $0.hasPrefix("relay_hellos_rejected_total{") }
        #expect(rejected.count == 1 && rejected.allSatisfy { $0.hasSuffix(" 1") }, "\(rejected)")
        #expect(value(#"relay_sign_in_failures_total{method="password",reason="wrongCredentials"}"#, in: text) == 1)
        #expect(value(#"relay_sign_ins_total{method="joinLink"}"#, in: text) == 2)
        #expect(value(#"relay_http_requests_total{status="200"}"#, in: text) ?? 0 > 2)
        #expect(value("relay_http_request_seconds_count", in: text) ?? 0 > 2)
        let version = try await RelaydProcess.run(["--version"]).output.split(separator: " ")[1]
        let build = text.split(separator: "\n").filter { $0.hasPrefix("relay_build_info{") }
        #expect(build.count == 1 && build[0].contains("version=\"\(version)\"") && build[0].contains("commit=\""), "\(build)")
        #expect(value("process_cpu_seconds_total", in: text) ?? 0 > 0)
        #expect(value("process_start_time_seconds", in: text) ?? 0 > 1_700_000_000)
        #if os(Linux)
        #expect(value("process_open_fds", in: text) ?? 0 > 5)
        #expect(value("process_max_fds", in: text) ?? 0 >= 256)
        #expect(value("process_resident_memory_bytes", in: text) ?? 0 > 1_048_576)
        #endif
    }

    @Test(.enabled(if: PostgresServer.isPossible)) func metricsSayWhatANodeDoes() async throws {
        let places = try RelayNodes(1)
        let text = try await metrics(at: places.ports[0], places.arguments(0, store: PostgresServer.shared.makeURI()))
        let accounts = value("relay_node_accounts", in: text) ?? 0
        #expect(accounts >= 1)
        #expect(value("relay_node_leases_taken_total", in: text) == accounts)
        #expect(value("relay_node_leases_lost_total", in: text) == 0)
        #expect(value("relay_node_suspended", in: text) == 0)
        #expect(value("relay_store_commit_seconds_count", in: text) ?? 0 > 4)
        #expect(value("relay_store_transactions_total", in: text) ?? 0 >= value("relay_store_commit_seconds_count", in: text) ?? 9)
        #expect(value("relay_store_commit_failures_total", in: text) == 0)
    }

    /// Every metric has a help text and a row in the documents, and the documents name no other.
    @Test func theDocumentsListTheMetrics() async throws {
        let lines = try await metrics().split(separator: "\n")
        func names(_ prefix: String) -> Set<String> {
            Set(lines.filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count).prefix { $0 != " " }) })
        }
        let described = names("# HELP ")
        #expect(names("# TYPE ") == described)
        for line in lines where !line.hasPrefix("#") {
            let name = String(line.prefix { $0 != " " && $0 != "{" })
            let isKnown = ["", "_bucket", "_sum", "_count"].contains {
                name.hasSuffix($0) && described.contains(String(name.dropLast($0.count)))
            }
            #expect(isKnown, "\(name)")
        }
        let document = URL(filePath: #filePath).appending(path: "../../../../docs/relay.md").standardizedFileURL
        let rows = try String(contentsOf: document, encoding: .utf8).split(separator: "\n")
            .filter { $0.hasPrefix("| `relay_") || $0.hasPrefix("| `process_") }
        let documented = rows.flatMap { row in
            (row.dropFirst(2).firstRange(of: " |").map { row[row.startIndex..<$0.lowerBound] } ?? row[...])
                .split(separator: "`").filter { $0.hasPrefix("relay_") || $0.hasPrefix("process_") }.map(String.init)
        }
        #expect(Set(documented) == described)
        #expect(documented.count == described.count)
    }

    /// By Prometheus's own checker.
    @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/promtool"), "needs Debian's package prometheus"))
    func prometheusFindsNoFault() async throws {
        let text = try await metrics()
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/promtool")
        process.arguments = ["check", "metrics"]
        let ended = try await ProcessRun.run(process, input: text)
        #expect(ended.status == 0 && ended.output.isEmpty && ended.error.isEmpty, "\(ended)")
    }
}
