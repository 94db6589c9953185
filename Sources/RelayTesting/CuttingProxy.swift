// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
import NIOCore
import NIOPosix
import Synchronization

/// A proxy before a PostgreSQL server that loses what goes through it, and then cuts the connection. For tests only.
package final class CuttingProxy: Sendable {
    private enum Loss {
        case nothing, answer, request
    }

    /// With the socket of the proxy.
    package let directory: URL
    private let database: [(name: String, value: String)]
    private let state: State
    private let server: any Channel

    private final class State: Sendable {
        let value = Mutex((next: Loss.nothing, cuts: 0, isCut: false))
    }

    package init(to database: [(name: String, value: String)]) async throws {
        self.database = database
        directory = FileManager.default.temporaryDirectory.appending(path: "proxy-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let target = "\(database[0].value)/.s.PGSQL.5432"
        let state = State()
        self.state = state
        server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelOption(.autoRead, value: false)
            .childChannelInitializer { client in
                ClientBootstrap(group: client.eventLoop).channelOption(.autoRead, value: false).connect(unixDomainSocketPath: target)
                    .flatMapThrowing { server in
                        func mayPass(_ lost: Loss) -> Bool {
                            state.value.withLock { state in
                                guard state.isCut || state.next == lost else { return true }
                                (state.next, state.cuts) = (.nothing, state.cuts + 1)
                                return false
                            }
                        }
                        try client.pipeline.syncOperations.addHandler(Pipe(to: server) { mayPass(.request) })
                        try server.pipeline.syncOperations.addHandler(Pipe(to: client) { mayPass(.answer) })
                        // The client's channel is not open yet.
                        client.eventLoop.execute {
                            for channel in [client, server] { _ = channel.setOption(.autoRead, value: true) }
                        }
                    }
            }
            .bind(unixDomainSocketPath: "\(directory.path)/.s.PGSQL.5432").get()
    }

    package var parameters: [(name: String, value: String)] { [("host", directory.path)] + database.dropFirst() }
    package var cuts: Int { state.value.withLock { $0.cuts } }

    package func loseNextAnswer() { state.value.withLock { $0.next = .answer } }
    package func loseNextRequest() { state.value.withLock { $0.next = .request } }

    /// Whether everything is lost.
    package var isCut: Bool {
        get { state.value.withLock { $0.isCut } }
        set { state.value.withLock { $0.isCut = newValue } }
    }

    package func end() async {
        try? await server.close()
        try? FileManager.default.removeItem(at: directory)
    }

    private final class Pipe: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let other: any Channel
        private let mayPass: () -> Bool

        init(to other: any Channel, mayPass: @escaping () -> Bool) { (self.other, self.mayPass) = (other, mayPass) }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            // A client that goes may be read late. Its farewell (Terminate) is not what is to be lost.
            let bytes = unwrapInboundIn(data).readableBytesView
            let isFarewell = bytes.count == 5 && bytes.first == UInt8(ascii: "X")
            guard isFarewell || mayPass() else {
                other.close(promise: nil)
                return context.close(promise: nil)
            }
            other.writeAndFlush(unwrapInboundIn(data), promise: nil)
        }

        func channelInactive(context: ChannelHandlerContext) { other.close(promise: nil) }
    }
}
