// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Logging
import RelayComposition
import RelayIssuer
import RelayProtocol
import RelayServer
import ServiceLifecycle

/// A relay in this process that can be stopped and restarted.
actor RelayNode {
    private struct Running {
        var group: ServiceGroup
        var task: Task<Void, any Error>
        var issuer: Issuer
    }

    nonisolated let key: RelayKey
    nonisolated let url: URL
    private let configuration: RelayConfiguration
    /// Reserves the port while the relay is stopped.
    private let ports: [ReservedPort]
    /// An in-memory store that outlives a stop, so that a restarted relay has everything that it accepted before.
    private let store: SQLiteStore
    private var running: Running?
    private var subjects: [String: String] = [:]

    init(dataDirectory: String) throws {
        var configuration = RelayConfiguration(dataDirectory: dataDirectory)
        configuration.listen = [ListenAddress(host: "127.0.0.1", port: 0)]
        configuration.tunnelListen = [ListenAddress(host: "127.0.0.1", port: 0)]
        ports = try configuration.takePorts()
        key = try RelayKey.load(in: dataDirectory)
        store = try SQLiteStore()
        guard let origin = try configuration.origins().first?.description, let url = URL(exactly: origin) else { throw NoAddress() }
        self.url = url
        self.configuration = configuration
    }

    struct NoAddress: Error {}
    struct NotRunning: Error, CustomStringConvertible {
        var description: String { "the test's relay does not run; start it first" }
    }

    func start() async throws {
        guard running == nil else { return }
        let logger = Logger(label: "test-relay", factory: { _ in SwiftLogNoOpLogHandler() })
        let composition = try await Composition(
            configuration,
            stores: try Stores(store, in: configuration.dataDirectory),
            metrics: PrometheusMetrics(),
            logger: logger
        )
        let ready = OneShot<Result<Void, any Error>>()
        let service = try RelayService(configuration: configuration, key: key, parts: composition.parts, logger: logger) { _ in
            ready.settle(.success(()))
        }
        let group = ServiceGroup(configuration: ServiceGroupConfiguration(services: [service], logger: logger))
        let task = Task {  // Owner: `running`
            do {
                try await group.run()
                ready.settle(.failure(NotRunning()))
            } catch {
                ready.settle(.failure(error))
                throw error
            }
        }
        running = Running(group: group, task: task, issuer: composition.issuer)
        guard let result = await ready.wait() else { throw CancellationError() }
        do {
            try result.get()
        } catch {
            running = nil
            throw error
        }
    }

    func stop() async {
        guard let running else { return }
        self.running = nil
        await running.group.triggerGracefulShutdown()
        _ = await running.task.result
        try? running.issuer.close()
    }

    /// A link into a person's account. The account is created if it does not exist.
    func invite(_ person: String) async throws -> JoinLink {
        guard let issuer = running?.issuer else { throw NotRunning() }
        if subjects[person] == nil { subjects[person] = try await issuer.createUser(name: person) }
        guard let subject = subjects[person] else { throw NotRunning() }
        let code = try await issuer.invite(subject: subject)
        return try JoinLink(origin: url.absoluteString, relay: key.id, invite: code, plainHTTP: .allowed)
    }
}
