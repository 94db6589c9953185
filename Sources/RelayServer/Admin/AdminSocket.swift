// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import Synchronization

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The socket for the operator's commands to a running relay: a Unix socket in the data directory, accessible to its owner only. The
/// client sends one JSON object and ends its output; the answer is one JSON object.
package struct AdminSocket: Sendable {
    /// The maximum size of a request.
    private static let requestBytes = 32 << 10
    /// The maximum size of an answer: 64 endpoints in each of many accounts.
    private static let answerBytes = 64 << 20
    /// How long the request may take to arrive, and the answer to be read. The work between has bounds of its own.
    private static let time = TimeAmount.seconds(10)
    /// How many requests are served at a time: a command that waits for the network delays no other.
    private static let maximumAtOnce = 16

    let path: String
    let answer: @Sendable (AdminRequest) async -> AdminAnswer
    let logger: Logger
    let files: OpenFiles

    package static func path(in directory: String) -> String { directory + "/relay.socket" }

    fileprivate typealias Server = NIOAsyncChannel<NIOAsyncChannel<ByteBuffer, ByteBuffer>, Never>

    /// Accepts connections from now on.
    /// - Returns: The service that answers them; `nil` if there can be no socket. The relay works without it.
    func open() async -> AdminService? {
        do {
            let server = try await ServerBootstrap(group: EventLoops.connections)
                .serverChannelInitializer { [files] channel in
                    channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(AcceptRestHandler(files)) }
                }
                .childChannelOption(.allowRemoteHalfClosure, value: true)
                .bind(unixDomainSocketPath: path, cleanupExistingSocketFile: true) { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandler(RequestDeadline(Self.time))
                        return try NIOAsyncChannel<ByteBuffer, ByteBuffer>(
                            wrappingChannelSynchronously: channel,
                            configuration: .init(isOutboundHalfClosureEnabled: true)
                        )
                    }
                }
            guard chmod(path, 0o600) == 0 else { throw IOError(errnoCode: errno, reason: "chmod") }
            return AdminService(socket: self, server: server)
        } catch {
            logger.warning("the operator's commands cannot reach this relay", metadata: ["socket": "\(path)", "reason": "\(error)"])
            return nil
        }
    }

    fileprivate func run(_ server: Server) async throws {
        do {
            try await cancelWhenGracefulShutdown {
                try await server.executeThenClose { connections in
                    let places = Places(Self.maximumAtOnce)
                    try await withThrowingDiscardingTaskGroup { group in
                        for try await connection in connections {
                            guard places.take() else {
                                try? await connection.channel.close()
                                continue
                            }
                            group.addTask { [self] in
                                try? await serve(connection)
                                places.give()
                            }
                        }
                    }
                }
            }
        } catch is CancellationError {
            // The relay stops.
        } catch {
            // The relay continues without the socket.
            logger.warning(
                "the operator's commands cannot reach this relay any more",
                metadata: ["socket": "\(path)", "reason": "\(error)"]
            )
        }
        unlink(path)
        try? await gracefulShutdown()
    }

    private func serve(_ connection: NIOAsyncChannel<ByteBuffer, ByteBuffer>) async throws {
        try await connection.executeThenClose { inbound, outbound in
            var bytes = ByteBuffer()
            for try await part in inbound {
                guard bytes.readableBytes + part.readableBytes <= Self.requestBytes else { return }
                bytes.writeImmutableBuffer(part)
            }
            let answer: AdminAnswer
            if let request = try? JSONDecoder().decode(AdminRequest.self, from: Data(bytes.readableBytesView)) {
                answer = await self.answer(request)
            } else {
                answer = .failure("this relay does not know the request: it has another version than the command")
            }
            try await outbound.write(ByteBuffer(bytes: try JSONEncoder().encode(answer)))
        }
    }

    /// Sends a request to the relay that runs on a data directory.
    package static func ask(_ request: AdminRequest, in directory: String) async throws -> AdminAnswer {
        let channel: NIOAsyncChannel<ByteBuffer, ByteBuffer>
        do {
            channel = try await ClientBootstrap(group: EventLoops.connections)
                .channelOption(.allowRemoteHalfClosure, value: true)
                .connect(unixDomainSocketPath: path(in: directory)) { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try NIOAsyncChannel(
                            wrappingChannelSynchronously: channel,
                            configuration: .init(isOutboundHalfClosureEnabled: true)
                        )
                    }
                }
        } catch {
            throw AdminError.noRelay(directory)
        }
        let bytes = try await channel.executeThenClose { inbound, outbound in
            try await outbound.write(ByteBuffer(bytes: try JSONEncoder().encode(request)))
            outbound.finish()
            var bytes = ByteBuffer()
            for try await part in inbound {
                guard bytes.readableBytes + part.readableBytes <= Self.answerBytes else {
                    throw AdminError("the relay's answer is too long")
                }
                bytes.writeImmutableBuffer(part)
            }
            return bytes
        }
        guard let answer = try? JSONDecoder().decode(AdminAnswer.self, from: Data(bytes.readableBytesView)) else {
            throw AdminError("the relay gave no answer: its log says why")
        }
        if case .failure(let reason) = answer { throw AdminError(reason) }
        return answer
    }
}

/// Why an operator's command failed.
package struct AdminError: Error, Hashable, Sendable, CustomStringConvertible {
    package var description: String
    package init(_ description: String) { self.description = description }

    package static let unknownAnswer = AdminError("the relay answered another question: it has another version than the command")

    package static let noEndpoint = AdminError("there is no endpoint of this id: see `relayd endpoint list`")

    package static func noRelay(_ directory: String) -> AdminError {
        AdminError("no relay runs on \(directory): start it with `relayd serve`, or name its directory with --data-directory")
    }
}

/// How many more requests may be served at a time.
private final class Places: Sendable {
    private let free: Mutex<Int>

    init(_ count: Int) { free = Mutex(count) }

    func take() -> Bool {
        free.withLock { free in
            guard free > 0 else { return false }
            free -= 1
            return true
        }
    }

    func give() { free.withLock { $0 += 1 } }
}

/// Closes a connection whose request does not arrive in time. Afterwards the answer may take as long as the work needs.
private final class RequestDeadline: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let time: TimeAmount
    private var timeout: Scheduled<Void>?

    init(_ time: TimeAmount) { self.time = time }

    func handlerAdded(context: ChannelHandlerContext) {
        timeout = context.eventLoop.assumeIsolated().scheduleTask(in: time) { context.close(promise: nil) }
    }

    func handlerRemoved(context: ChannelHandlerContext) { timeout?.cancel() }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed? = event as? ChannelEvent { timeout?.cancel() }
        context.fireUserInboundEventTriggered(event)
    }
}

/// Answers the connections of an open admin socket.
struct AdminService: Service {
    fileprivate let socket: AdminSocket
    fileprivate let server: AdminSocket.Server

    func run() async throws { try await socket.run(server) }
}
