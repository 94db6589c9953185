// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix
import RelayProtocol
import RelayTesting
import Testing

@testable import RelayServer

/// What a node learns from its common URL, whoever answers there.
@Suite(.timeLimit(.minutes(2))) struct CommonURLTests {
    private static let node = NodeID()

    /// The nodes that are named to who asks a server that says `answer` to everything.
    private func nodes(_ answer: String?) async throws -> Set<NodeID> {
        let port = try FreePort.take()
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(Saying(answer)) }
            }
            .bind(host: "127.0.0.1", port: port).get()
        let found = await CommonURL([Origin(scheme: "http", host: "127.0.0.1", port: port)], own: nil).readyNodes()
        try await server.close()
        return found
    }

    private final class Saying: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let answer: String?

        init(_ answer: String?) { self.answer = answer }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            guard let answer else { return }
            context.channel.writeAndFlush(ByteBuffer(string: answer), promise: nil)
        }
    }

    private static func answer(_ status: String, _ fields: String, body: String = "") -> String {
        "HTTP/1.1 \(status)\r\n\(fields)Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
    }

    @Test func readyNodeIsFound() async throws {
        #expect(try await nodes(Self.answer("200 OK", "Relay-Node: \(Self.node)\r\n", body: "ready\n")) == [Self.node])
    }

    @Test(arguments: 0..<9)
    func otherAnswersNameNoNode(number: Int) async throws { #expect(try await nodes(Self.answers[number]).isEmpty) }

    private static let answers = [
        answer("503 Service Unavailable", "Relay-Node: \(node)\r\n"), answer("200 OK", ""), answer("200 OK", "Relay-Node: me\r\n"),
        answer("200 OK", "Relay-Node: \r\n"), answer("200 OK", "Relay-Node: \(node)\r\nRelay-Node: \(NodeID())\r\n"),
        answer("302 Found", "Location: http://127.0.0.1:1/readyz\r\nRelay-Node: \(node)\r\n"),
        answer("200 OK", "Relay-Node: \(node)\r\n", body: String(repeating: "x", count: 300_000)), "SSH-2.0-OpenSSH_9.2\r\n", "\0\r\n\r\n",
    ]

    /// It answers nothing, and nobody is there.
    @Test func silenceNamesNoNode() async throws {
        #expect(try await nodes(nil).isEmpty)
        #expect(await CommonURL([Origin(scheme: "http", host: "127.0.0.1", port: try FreePort.take())], own: nil).readyNodes().isEmpty)
    }

    @Test func ownURLAndURLsWithoutTLSAreNotAsked() async throws {
        let own = Origin(scheme: "https", host: "node1.relay.example", port: 443)
        let plain = Origin(scheme: "http", host: "relay.example", port: 80)
        #expect(await CommonURL([own, plain], own: own).readyNodes().isEmpty)
    }
}
