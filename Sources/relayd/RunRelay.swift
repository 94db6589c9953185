// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayServer
import ServiceLifecycle
import UnixSignals

/// Puts the relay together from its settings, and runs it until SIGTERM or SIGINT.
/// - Parameter makeParts: makes the core, the token verifier and the issuer.
func runRelay(
    _ configuration: RelayConfiguration,
    makeParts: (RelayConfiguration, RelayKey, PrometheusMetrics, Logger) async throws -> RelayService.Parts
) async throws {
    LoggingSystem.bootstrap { StreamLogHandler.standardError(label: $0) }
    var logger = Logger(label: "relayd")
    logger.logLevel = configuration.logLevel
    // Before anything is made of the addresses.
    var configuration = configuration
    let ports = try configuration.takePorts()
    defer { withExtendedLifetime(ports) {} }
    let key = try RelayKey.load(in: configuration.dataDirectory)
    let parts = try await makeParts(configuration, key, PrometheusMetrics(), logger)
    let service = try RelayService(configuration: configuration, key: key, parts: parts, logger: logger) { urls in
        // The one line on standard output: whoever started the relay waits for it.
        StandardStream.output.writeLine("relayd \(key.id) ready at \(urls.map(\.description).joined(separator: " "))")
    }
    let group = ServiceGroup(
        configuration: ServiceGroupConfiguration(
            services: [service],
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger.forServiceGroups
        )
    )
    try await group.run()
}
