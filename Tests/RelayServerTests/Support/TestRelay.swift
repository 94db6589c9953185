// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import RelayProtocol
import RelayServer
import ServiceLifecycle

/// A relay on a free port of loopback, real but for its core.
struct TestRelay: Sendable {
    let key: RelayKey
    let url: Origin
    let core: RecordingCore
    let tokens: FixedTokens
    let metrics: PrometheusMetrics
    let service: RelayService
    let group: ServiceGroup

    var unauthenticated: UnauthenticatedConnections { service.unauthenticated }
    var port: Int { url.port }
    var host: String { "\(url.host):\(url.port)" }
    var origin: String { url.description }

    func stop() async { await group.triggerGracefulShutdown() }

    func connect(isReading: Bool = true) async throws -> TestSocket {
        try await TestSocket(port: port, pinned: url.scheme == "https" ? key.id : nil, isReading: isReading)
    }

    /// Runs a relay as long as the closure, and stops it gracefully.
    /// - Parameter realCore: takes the place of the core that records.
    static func with<Result: Sendable>(
        core: RecordingCore = RecordingCore(),
        realCore: ((RelayKey, PrometheusMetrics) -> RelayCore)? = nil,
        intervals: RelayMessage.Welcome.Intervals = RelayMessage.Welcome.Intervals(),
        obstacle: String? = nil,
        clock: RelayClock = .system,
        logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        configure: (inout RelayConfiguration) -> Void = { _ in },
        _ work: @Sendable (TestRelay) async throws -> Result
    ) async throws -> Result {
        var configuration = RelayConfiguration(dataDirectory: "/nonexistent")
        configuration.listen = [ListenAddress(host: "127.0.0.1", port: 0)]
        configuration.drainSeconds = 4
        configure(&configuration)
        let key = RelayKey()
        let metrics = PrometheusMetrics()
        let tokens = FixedTokens()
        let (readiness, ready) = AsyncStream.makeStream(of: [Origin].self)
        let service = try RelayService(
            configuration: configuration,
            key: key,
            parts: RelayService.Parts(
                core: realCore?(key, metrics) ?? core,
                tokens: tokens,
                issuers: { AcceptedIssuers(["https://issuer.example"]) },
                metrics: metrics,
                obstacle: { obstacle }
            ),
            logger: logger,
            clock: clock,
            intervals: intervals,
            ready: { ready.yield($0) }
        )
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(services: [service], logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        )
        return try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                defer { ready.finish() }
                try await group.run()
            }
            for await urls in readiness {
                guard let url = urls.last else { continue }
                let relay = TestRelay(
                    key: key,
                    url: url,
                    core: core,
                    tokens: tokens,
                    metrics: metrics,
                    service: service,
                    group: group
                )
                let result: Result
                do {
                    result = try await work(relay)
                } catch {
                    await group.triggerGracefulShutdown()
                    throw error
                }
                await group.triggerGracefulShutdown()
                try await tasks.waitForAll()
                return result
            }
            try await tasks.waitForAll()
            throw NeverReady()
        }
    }

    struct NeverReady: Error {}
}

/// Waits for something that comes about on another thread; gives up after a time that no machine needs.
func eventually(_ condition: @Sendable () -> Bool) async throws -> Bool {
    for _ in 0..<6_000 {
        if condition() { return true }
        try await Task.sleep(for: .milliseconds(10))
    }
    return condition()
}
