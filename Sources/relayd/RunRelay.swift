// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayComposition
import RelayProtocol
import RelayServer
import ServiceLifecycle
import Synchronization
import UnixSignals

/// Puts the relay together from its settings, and runs it until SIGTERM or SIGINT.
/// - Parameter makeParts: makes the core, the token verifier and the issuer, and what is said once when the relay is ready.
func runRelay(
    _ configuration: RelayConfiguration,
    makeParts: (RelayConfiguration, RelayKey, PrometheusMetrics, Logger) async throws -> (RelayService.Parts, greeting: String?)
) async throws {
    LoggingSystem.bootstrap { StreamLogHandler.standardError(label: $0) }
    var logger = Logger(label: "relayd")
    logger.logLevel = configuration.logLevel
    // Before anything is made of the addresses.
    var configuration = configuration
    let ports = try configuration.takePorts()
    defer { withExtendedLifetime(ports) {} }
    let directory = try DataDirectory(configuration.dataDirectory, .made)
    let key = try RelayKey.load(in: directory.path)
    let serving = Serving(relay: key.id, origins: try configuration.origins())
    let announcement = Mutex<Serving.Announcement?>(nil)
    let (parts, greeting) = try await makeParts(configuration, key, PrometheusMetrics(), logger)
    let service = try RelayService(configuration: configuration, key: key, parts: parts, logger: logger) { [logger] urls in
        // The commands that are run beside the relay know from now on where it is.
        do throws(ServingError) {
            let made = try serving.announce(in: directory.path)
            announcement.withLock { $0 = made }
        } catch {
            logger.warning("\(error)")
        }
        // The first line on standard output: what started the relay waits for it.
        StandardStream.output.writeLine("relayd \(key.id) ready at \(urls.map(\.description).joined(separator: " "))")
        if let greeting { StandardStream.output.writeLine(greeting) }
    }
    let group = ServiceGroup(
        configuration: ServiceGroupConfiguration(
            services: [service],
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger.forServiceGroups
        )
    )
    defer { announcement.withLock { $0 = nil } }
    try await group.run()
}
