// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Logging
import RelayComposition
import RelayIssuer
import RelayLog
import RelayProtocol
import RelayServer

/// Sends an operator's request to the relay that runs on the data directory. If none runs, composes one for this request.
/// - Parameter use: What the command does with the data directory.
func administer(
    _ request: AdminRequest,
    _ configuration: RelayConfiguration,
    _ use: DataDirectory.Use = .existing
) async throws -> AdminAnswer {
    var configuration = configuration
    let directory = try DataDirectory(configuration.dataDirectory, use)
    do {
        return try await AdminSocket.ask(request, in: directory.path)
    } catch let error as AdminError where error == .noRelay(directory.path) {
        // No relay runs on this directory.
    }
    // Nothing listens here, so the default addresses are used.
    configuration.listen = RelayConfiguration(dataDirectory: directory.path).listen
    let lock = try directory.lock()
    let output = LogOutput(.text, level: .warning) { StandardStream.error.writeLine($0) }
    let logger = Logger(label: "relayd") { _ in RelayLogHandler(output) }
    let metrics = PrometheusMetrics()
    let clock = RelayClock.system
    let stores = try Stores.open(configuration, holding: lock, metrics: metrics, now: { clock.now().time }, logger: logger)
    defer { stores.close() }
    let composition = try await Composition(configuration, stores: stores, metrics: metrics, logger: logger)
    try await composition.parts.core.start(tunnelPorts: [])
    guard let answer = await composition.parts.administer?(request) else { throw AdminError.noRelay(directory.path) }
    await composition.parts.core.stop()
    if case .failure(let reason) = answer { throw AdminError(reason) }
    return answer
}

/// Prints the result of an operator's command as JSON.
func printJSON(_ value: some Encodable) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    try print(asIs: DisplayText.escaped(json: String(decoding: try encoder.encode(value), as: UTF8.self)))
}
