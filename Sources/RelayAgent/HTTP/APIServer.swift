// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Hummingbird
import HummingbirdCore
import HummingbirdTLS
import Logging
import NIOCore
import NIOPosix
import RelayHTTP
import RelayStorage
import Synchronization

/// Serves the API on a Unix socket, and on TCP if the settings say so, as long as the agent runs.
struct APIServer: Sendable {
    let home: Home
    let settings: AgentConfiguration.API
    var environment: [String: String]
    let version: String
    let store: AgentStore
    let board: AskBoard
    let grants: GrantBook
    /// Whether the agent polls.
    let isPolling: Bool

    /// Serves until the task is cancelled.
    /// - Parameter ready: Called once clients can connect.
    func run(on local: LocalDevice, ready: @escaping @Sendable () -> Void) async throws {
        let path = try SocketPlace.prepare(home, chosen: settings.socket, environment: environment)
        let address = AgentAddress(socket: path, instance: UUID().uuidString.lowercased(), home: home)
        let home = home
        let log = EventLog()
        let listeners = Listeners(settings.listen == nil ? 2 : 3, ready)
        let opened: @Sendable () -> Void = { listeners.opened() }
        let console = ConsoleDoor { log.accessChanged() }
        let transfers = Transfers(log)
        let webhooks = Webhooks(local: local, store: store, events: log)
        let connection = isPolling ? RequestedConnection(local.platform, local.account) : nil
        let routes = APIRoutes(
            local: local,
            store: store,
            board: board,
            grants: grants,
            events: log,
            webhooks: webhooks,
            transfers: transfers,
            console: console,
            connection: connection,
            instance: address.instance,
            version: version
        )
        let application = HTTPService(
            routes.router(for: .socket).buildResponder(),
            server: .http1(configuration: .init(additionalChannelHandlers: [SameUserHandler(), HeadDeadline()], idleTimeout: idle)),
            configuration: Self.configuration(.unixDomainSocket(path: path)),
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Self.logger,
            isRunning: { _ in
                // The directory keeps other users out meanwhile.
                chmod(path, 0o600)
                try? address.write(home)
                opened()
            }
        )
        defer {
            connection?.end()
            AgentAddress.remove(home)
            unlink(path)
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await EventSource(local: local, board: board, log: log).run() }
            group.addTask { await webhooks.run() }
            group.addTask { await transfers.run() }
            group.addTask { try await application.run() }
            group.addTask { try await Self.application(routes, console, opened: opened).run() }
            if let listener = settings.listen {
                let network = try Self.application(routes, listener, opened: opened)
                group.addTask {
                    do {
                        try await network.run()
                    } catch {
                        guard !Task.isCancelled else { return }
                        throw AgentError("listenFailed", "\(listener.address): \(error)", .failed)
                    }
                }
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    private static let logger = Logger(label: "device-relay.api") { _ in SwiftLogNoOpLogHandler() }

    private static func configuration(_ address: BindAddress) -> ServerConfiguration {
        ServerConfiguration(
            address: address,
            availableConnectionsDelegate: MaximumAvailableConnections(APIBounds.connections, logger: logger)
        )
    }

    private static func application(
        _ routes: APIRoutes,
        _ listener: APIListener,
        opened: @escaping @Sendable () -> Void
    ) throws -> HTTPService<RouterResponder<APIContext>> {
        let tls = try listener.tls()
        let channel = HTTPServerBuilder.http1(configuration: .init(additionalChannelHandlers: [HeadDeadline()], idleTimeout: idle))
        return HTTPService(
            routes.router(for: .network(listener)).buildResponder(),
            server: try tls.map { try .tls(channel, tlsConfiguration: $0) } ?? channel,
            configuration: configuration(.hostname(listener.host, port: listener.port)),
            group: MultiThreadedEventLoopGroup.singleton,
            logger: logger,
            isRunning: { _ in opened() }
        )
    }
}

extension APIServer {
    /// The local console: on this machine's own address, at a port that no service worker of an earlier one has seen.
    fileprivate static func application(
        _ routes: APIRoutes,
        _ console: ConsoleDoor,
        opened: @escaping @Sendable () -> Void
    ) -> HTTPService<RouterResponder<APIContext>> {
        HTTPService(
            routes.router(for: .console(console)).buildResponder(),
            server: .http1(
                configuration: .init(additionalChannelHandlers: [FileCompression(), HeadDeadline()], idleTimeout: idle)
            ),
            configuration: configuration(.hostname("127.0.0.1", port: 0)),
            group: MultiThreadedEventLoopGroup.singleton,
            logger: logger,
            isRunning: { channel in
                console.opened(port: channel.localAddress?.port ?? 0)
                opened()
            }
        )
    }
}

/// How long a connection may be idle, also within a request.
private let idle = TimeAmount(APIBounds.idlePatience)

/// Tells once that all listeners take connections.
private final class Listeners: Sendable {
    private let closed: Mutex<Int>
    private let ready: @Sendable () -> Void

    init(_ count: Int, _ ready: @escaping @Sendable () -> Void) {
        closed = Mutex(count)
        self.ready = ready
    }

    func opened() {
        let areAllOpen = closed.withLock { closed in
            closed -= 1
            return closed == 0
        }
        if areAllOpen { ready() }
    }
}

/// Closes connections of other users. Their files keep them out already; this also holds where a file system has no permissions.
private final class SameUserHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    #if os(Linux)
    /// `struct ucred`, which its header hides.
    private struct Credentials {
        var process: Int32 = 0
        var user: UInt32 = .max
        var group: UInt32 = .max
    }
    #endif

    /// The id of users that a container does not map.
    private static let unmapped: UInt32 = 65_534

    func channelActive(context: ChannelHandlerContext) {
        let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
        // The future of a call on the event loop is complete, so nothing is read before.
        Self.user(of: context.channel).whenComplete { result in
            guard case .success(let user) = result, user == geteuid(), user != Self.unmapped else {
                return bound.value.close(promise: nil)
            }
            bound.value.fireChannelActive()
        }
    }

    private static func user(of channel: any Channel) -> EventLoopFuture<UInt32> {
        guard let options = channel as? any SocketOptionProvider else {
            return channel.eventLoop.makeFailedFuture(ChannelError.operationUnsupported)
        }
        #if os(Linux)
        return options.unsafeGetSocketOption(level: .socket, name: .init(rawValue: SO_PEERCRED)).map { (peer: Credentials) in peer.user }
        #else
        return options.unsafeGetSocketOption(level: .init(rawValue: 0), name: .init(rawValue: LOCAL_PEERCRED)).map { (peer: xucred) in
            peer.cr_uid
        }
        #endif
    }
}
