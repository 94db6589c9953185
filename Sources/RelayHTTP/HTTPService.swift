// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Hummingbird
package import HummingbirdCore
package import Logging
package import NIOCore
import NIOHTTP1
import ServiceLifecycle

/// Serves a responder at an address until it is stopped. Hummingbird's `Application` does the same, but wakes the process each second to
/// format the date.
package struct HTTPService<Responder: HTTPResponder>: Service
where Responder.Context: InitializableFromSource<ApplicationRequestContextSource> {
    private let responder: Responder
    private let server: HTTPServerBuilder
    private let configuration: ServerConfiguration
    private let group: any EventLoopGroup
    private let logger: Logger
    private let isRunning: @Sendable (any Channel) async -> Void

    /// - Parameter isRunning: Called with each listening channel.
    package init(
        _ responder: Responder,
        server: HTTPServerBuilder,
        configuration: ServerConfiguration,
        group: any EventLoopGroup,
        logger: Logger,
        isRunning: @escaping @Sendable (any Channel) async -> Void
    ) {
        self.responder = responder
        self.server = server
        self.configuration = configuration
        self.group = group
        self.logger = logger
        self.isRunning = isRunning
    }

    /// The rest of a request is not HTTP, and its answer has begun.
    private struct RequestBroken: Error {}

    package func run() async throws {
        let (responder, logger, clock) = (responder, logger, DateClock())
        let service = try server.buildServer(configuration: configuration, eventLoopGroup: group, logger: logger) {
            (request, writer: consuming ResponseWriter, channel) in
            let context = Responder.Context(source: .init(channel: channel, logger: logger))
            var response: Response
            do {
                response = try await responder.respond(to: request, context: context)
            } catch let error as HTTPParserError {
                throw error
            } catch {
                response = Response(status: .internalServerError, body: .init())
            }
            response.headers[.date] = clock.text
            do {
                try await writer.write(response: response.head, body: response.body)
            } catch is HTTPParserError {
                // Another answer cannot follow, as it does after a parser's error.
                throw RequestBroken()
            }
        } onServerRunning: {
            await isRunning($0)
        }
        try await ServiceGroup(configuration: .init(services: [service], logger: logger)).run()
    }
}
