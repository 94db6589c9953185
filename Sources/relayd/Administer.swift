// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayComposition
import RelayIssuer
import RelayServer

/// Sends an operator's request to the relay that runs on the data directory. If none runs, composes one for this request.
/// - Parameter use: What the command does with the data directory.
func administer(
    _ request: AdminRequest,
    _ settings: ConfigurationOptions,
    _ use: DataDirectory.Use = .existing
) async throws -> AdminAnswer {
    var configuration = try settings.read()
    let directory = try DataDirectory(configuration.dataDirectory, use)
    do {
        return try await AdminSocket.ask(request, in: directory.path)
    } catch let error as AdminError where error == .noRelay(directory.path) {
        // No relay runs on this directory.
    }
    // Nothing listens here, so the default addresses are used.
    configuration.listen = RelayConfiguration(dataDirectory: directory.path).listen
    let lock = try directory.lock()
    let key = try RelayKey.load(in: directory.path)
    var logger = Logger(label: "relayd") { StreamLogHandler.standardError(label: $0) }
    logger.logLevel = .warning
    let store = try SQLiteStore(holding: lock)
    defer { store.close() }
    let composition = try await Composition(configuration, store: store, key: key, metrics: PrometheusMetrics(), logger: logger)
    defer { try? composition.issuer.close() }
    try await composition.parts.core.start(tunnelPorts: [])
    guard let answer = await composition.parts.administer?(request) else { throw AdminError.noRelay(directory.path) }
    await composition.parts.core.stop()
    if let error = answer.error { throw AdminError(error) }
    return answer
}
