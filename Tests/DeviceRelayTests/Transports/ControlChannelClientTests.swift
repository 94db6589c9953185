// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import DeviceRelay
import Foundation
import NIOCore
import NIOWebSocket
import RelayProtocol
import RelayTesting
import SwiftASN1
import Testing
import X509

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

@Suite(.serialized) struct ControlChannelClientTests {
    typealias Event = ControlConnection.Event

    /// What comes from one dial, as a test can compare it.
    struct Dialled: Sendable {
        let events: AsyncStream<Event>
        let dial: ControlDial
    }

    static func dial(
        _ url: String,
        relay: RelayID? = nil,
        authorities: [Certificate] = [],
        timeout: Int64 = 10_000,
        maximumFrameBytes: Int = 64 << 10
    ) throws -> Dialled {
        Self.dial(
            try RelayAddress(try #require(URL(string: url))),
            relay: relay,
            .certificates(authorities),
            timeout: timeout,
            maximumFrameBytes: maximumFrameBytes
        )
    }

    static func dial(
        _ address: RelayAddress,
        relay: RelayID? = nil,
        _ authorities: TrustRoots,
        timeout: Int64 = 10_000,
        maximumFrameBytes: Int = 64 << 10
    ) -> Dialled {
        let (events, continuation) = AsyncStream.makeStream(of: Event.self)
        let dial = ControlChannelClient(maximumFrameBytes: maximumFrameBytes)
            .dial(address, trust: RelayTrust(relay: relay, authorities: authorities), timeout: timeout) { event in
                continuation.yield(event)
                switch event {
                case .closed, .dialFailed: continuation.finish()
                default: break
                }
            }
        return Dialled(events: events, dial: dial)
    }

    /// Dials, and expects it to fail.
    static func failure(_ server: TestRelayServer, scheme: String = "http", relay: RelayID? = nil, timeout: Int64 = 10_000) async throws
        -> DialFailure?
    {
        let dialled = try dial("\(scheme)://127.0.0.1:\(server.port)", relay: relay, timeout: timeout)
        var failure: DialFailure?
        for await event in dialled.events {
            switch event {
            case .dialFailed(let why): failure = why
            case .opened(let connection):
                Issue.record("it opened")
                connection.close(code: 1000, reason: "")
            default: break
            }
        }
        await server.stop()
        return failure
    }

    /// Invalid bytes of a server, and the code with which the connection is closed.
    static func code(of bytes: [UInt8], thenClose: Bool = false) async throws -> (texts: [String], code: UInt16?) {
        let server = try await TestRelayServer(.plain, .bytes(bytes, thenClose: thenClose))
        var texts: [String] = []
        var code: UInt16?
        for await event in try dial("http://127.0.0.1:\(server.port)").events {
            switch event {
            case .text(let text): texts.append(String(buffer: text))
            case .closed(let closed): code = closed
            default: break
            }
        }
        await server.stop()
        return (texts, code)
    }

    /// Sends hello, waits for the echo, and closes.
    static func exchangeHello(_ dialled: Dialled) async -> [String] {
        var log: [String] = []
        var connection: ControlConnection?
        for await event in dialled.events {
            switch event {
            case .opened(let opened):
                log.append("opened")
                connection = opened
                opened.send(ByteBuffer(string: "hello"))
            case .text(let text):
                log.append(String(buffer: text))
                connection?.close(code: 1000, reason: "done")
            case .closed(let code): log.append("closed \(code ?? 0)")
            case .dialFailed(let failure): log.append("\(failure)")
            case .bytesReceived, .written: break
            }
        }
        return log
    }

    // MARK: Good relays

    @Test func messagesAreEchoed() async throws {
        let server = try await TestRelayServer(.plain, .echo)
        #expect(await Self.exchangeHello(try Self.dial("http://127.0.0.1:\(server.port)")) == ["opened", "hello", "closed 1000"])
        await server.stop()
    }

    @Test func pinnedKeyIsTrusted() async throws {
        let certificate = try TestCertificate(host: "another.example")
        let server = try await TestRelayServer(certificate.security, .echo)
        let log = await Self.exchangeHello(try Self.dial("https://127.0.0.1:\(server.port)/base/", relay: certificate.relayID))
        #expect(log == ["opened", "hello", "closed 1000"])
        await server.stop()
    }

    @Test func authorityIsTrustedForMatchingNames() async throws {
        let authority = try TestCertificate(name: "authority", isAuthority: true)
        let right = try TestCertificate(address: [127, 0, 0, 1], issuer: authority)
        let wrong = try TestCertificate(host: "relay.example", issuer: authority)
        for (certificate, log) in [
            (right, ["opened", "hello", "closed 1000"]), (wrong, ["untrusted(DeviceRelay.RelayTrustError.notTrusted)"]),
        ] {
            let server = try await TestRelayServer(certificate.security, .echo)
            // Also where another key is pinned: this relay has got a certificate since.
            let dialled = try Self.dial(
                "https://127.0.0.1:\(server.port)",
                relay: MachineBench.relay,
                authorities: [authority.certificate]
            )
            #expect(await Self.exchangeHello(dialled) == log)
            await server.stop()
        }
    }

    @Test func fileOfAPrivateAuthorityIsTrusted() async throws {
        let authority = try TestCertificate(name: "authority", isAuthority: true)
        let server = try await TestRelayServer(try TestCertificate(address: [127, 0, 0, 1], issuer: authority).security, .echo)
        let file = FileManager.default.temporaryDirectory.appending(path: "ca-\(UUID().uuidString).pem")
        defer { try? FileManager.default.removeItem(at: file) }
        try Data(try authority.certificate.serializeAsPEM().pemString.utf8).write(to: file)
        let address = try RelayAddress(try #require(URL(string: "https://127.0.0.1:\(server.port)")))
        func answer(_ roots: TrustRoots) async -> Result<RelayID, RequestFailure> {
            do throws(RequestFailure) {
                return .success(try await ControlChannelClient().identify(address, trust: RelayTrust(relay: nil, authorities: roots)))
            } catch {
                return .failure(error)
            }
        }
        // The server is trusted; then its first message is not a challenge.
        guard case .failure(.failed(.untrusted(.authoritiesUnreadable))) = await answer(.file(file.appending(path: "none"))),
            case .failure(.failed(.untrusted(.notTrusted))) = await answer(.system)
        else {
            Issue.record("trusted without the authority")
            return
        }
        let dial = Self.dial(address, .file(file))
        #expect(await Self.exchangeHello(dial) == ["opened", "hello", "closed 1000"])
        await server.stop()
    }

    // MARK: Invalid servers

    @Test func anotherKeyIsNotTrusted() async throws {
        let certificate = try TestCertificate(address: [127, 0, 0, 1])
        let server = try await TestRelayServer(certificate.security, .echo)
        #expect(
            try await Self.failure(server, scheme: "https", relay: MachineBench.relay) == .untrusted(.otherKey(certificate.relayID))
        )
        let unpinned = try await TestRelayServer(certificate.security, .echo)
        #expect(try await Self.failure(unpinned, scheme: "https") == .untrusted(.notTrusted))
    }

    @Test func serverWithoutCertificateIsRejected() async throws {
        let server = try await TestRelayServer(.tlsWithoutCertificate, .echo)
        #expect(try await Self.failure(server, scheme: "https", relay: MachineBench.relay) == .protocolError("TLS failed"))
    }

    @Test func plaintextServerIsRejectedOverTLS() async throws {
        let server = try await TestRelayServer(.plain, .raw("HTTP/1.1 400 Bad Request\r\n\r\n"))
        #expect(try await Self.failure(server, scheme: "https", relay: MachineBench.relay) == .protocolError("TLS failed"))
    }

    @Test func responseWithoutWebSocketIsRejected() async throws {
        let notFound = try await TestRelayServer(.plain, .raw("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"))
        #expect(try await Self.failure(notFound) == .status(404, retryAfter: nil))
        let busy = try await TestRelayServer(
            .plain,
            .raw("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n")
        )
        #expect(try await Self.failure(busy) == .status(503, retryAfter: 7_000))
        let unproved = try await TestRelayServer(
            .plain,
            .raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n")
        )
        #expect(try await Self.failure(unproved) == .status(101, retryAfter: nil))
        for subprotocol in [nil, "device-relay.v2"] {
            let other = try await TestRelayServer(.plain, .webSocket(subprotocol: subprotocol, onOpen: { _ in }, onFrame: { _, _ in }))
            #expect(try await Self.failure(other) == .status(101, retryAfter: nil))
        }
        let other = try await TestRelayServer(.plain, .raw("220 mail.example ESMTP\r\n"))
        let failure = try await Self.failure(other)
        guard case .protocolError = failure else {
            Issue.record("\(String(describing: failure))")
            return
        }
    }

    @Test func silentServerTimesOut() async throws {
        #expect(try await Self.failure(try await TestRelayServer(.plain, .silent), timeout: 200) == .timedOut)
        #expect(try await Self.failure(try await TestRelayServer(.plain, .silent), scheme: "https", timeout: 200) == .timedOut)
    }

    @Test func closedPortIsUnreachable() async throws {
        let server = try await TestRelayServer(.plain, .silent, port: FreePort.take())
        await server.stop()
        #expect(try await Self.failure(server) == .unreachable("nothing answers there"))
    }

    /// A relay that is killed closes new connections like this. The client must not report that the address has no relay.
    @Test(arguments: TestRelayServer.HangUp.allCases) func closedConnectionIsReportedAsHungUp(_ hangUp: TestRelayServer.HangUp) async throws
    {
        #expect(try await Self.failure(try await TestRelayServer(.plain, .hangsUp(hangUp))) == .hungUp)
        let server = try await TestRelayServer(.plain, .hangsUp(hangUp))
        #expect(try await Self.failure(server, scheme: "https", relay: MachineBench.relay) == .hungUp)
    }

    @Test func cancelledDialHasNoEvents() async throws {
        let server = try await TestRelayServer(.plain, .silent)
        let dialled = try Self.dial("http://127.0.0.1:\(server.port)", timeout: 300)
        dialled.dial.cancel()
        let seen = Task { await dialled.events.reduce(into: 0) { count, _ in count += 1 } }
        try await Task.sleep(for: .milliseconds(500))
        seen.cancel()
        #expect(await seen.value == 0)
        await server.stop()
    }

    // MARK: What the relay sends

    @Test func fragmentsAreJoined() async throws {
        // "he", a ping in between, "l", "lo"; then a close.
        let bytes: [UInt8] = [0x01, 2, 104, 101, 0x89, 0, 0x00, 1, 108, 0x80, 2, 108, 111, 0x88, 2, 0x03, 0xE8]
        let (texts, code) = try await Self.code(of: bytes)
        #expect(texts == ["hello"])
        #expect(code == 1000)
    }

    @Test(
        arguments: [
            ([0x80, 1, 65], 1002),  // continuation without a first fragment
            ([0x01, 1, 65, 0x81, 1, 65], 1002),  // begins anew within a message
            ([0x82, 1, 65], 1003),  // binary
            ([0x83, 1, 65], 1002),  // an opcode that is not known
            ([0xC1, 1, 65], 1002),  // a reserved bit
            ([0x81, 0x81, 0, 0, 0, 0, 65], 1002),  // masked by a server
            ([0x09, 0], 1002),  // a ping in fragments
            ([0x89, 126, 0, 126], 1002),  // a ping that is too long
            ([0x81, 127, 0, 0, 0, 0, 0, 1, 0, 1], 1009),  // longer than it may be, by its length alone
            ([0x81, 127, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], 1009),
            ([0x88, 0], 0), ([0x88, 2, 0x03, 0xF5], 1013), ([0x88, 1, 3], 0),
        ] as [([UInt8], UInt16)]
    ) func badFramesEndTheConnection(_ bytes: [UInt8], _ code: UInt16) async throws {
        let seen = try await Self.code(of: bytes)
        #expect(seen.texts == [])
        // A close without a code is answered by one with 1000.
        #expect(seen.code == (code == 0 ? 1000 : code))
    }

    @Test func fragmentedMessageIsBounded() async throws {
        let fragment = [0x00, 126, 0x40, 0x00] + [UInt8](repeating: 65, count: 0x4000)
        var bytes: [UInt8] = [0x01, 126, 0x40, 0x00] + [UInt8](repeating: 65, count: 0x4000)
        for _ in 0..<5 { bytes += fragment }
        #expect(try await Self.code(of: bytes).code == 1009)
    }

    @Test func truncatedFrameClosesTheConnection() async throws {
        let (texts, code) = try await Self.code(of: [0x81, 5, 104, 101], thenClose: true)
        #expect(texts == [])
        #expect(code == nil)
    }

    @Test func invalidTextEndsTheConnection() async throws {
        let (texts, code) = try await Self.code(of: [0x81, 2, 0xC3, 0x28, 0x88, 2, 0x03, 0xE8])
        #expect(texts == [])
        #expect(code == 1007)
    }

    @Test func frameArrivesByteByByte() async throws {
        let bytes: [UInt8] = [0x81, 5, 104, 101, 108, 108, 111, 0x88, 2, 0x03, 0xE8]
        let server = try await TestRelayServer(
            .plain,
            .webSocket(
                onOpen: { channel in
                    guard let context = try? channel.pipeline.syncOperations.context(handlerType: WebSocketFrameEncoder.self) else {
                        return
                    }
                    let bound = NIOLoopBound(context, eventLoop: channel.eventLoop)
                    for (index, byte) in bytes.enumerated() {
                        channel.eventLoop.scheduleTask(in: .milliseconds(Int64(index) * 5)) {
                            bound.value.writeAndFlush(NIOAny(ByteBuffer(bytes: [byte])), promise: nil)
                        }
                    }
                },
                onFrame: { _, _ in }
            )
        )
        var log: [String] = []
        for await event in try Self.dial("http://127.0.0.1:\(server.port)").events {
            if case .text(let text) = event { log.append(String(buffer: text)) }
            if case .closed(let code) = event { log.append("closed \(code ?? 0)") }
        }
        #expect(log == ["hello", "closed 1000"])
        await server.stop()
    }

    @Test func framesAreMaskedAndWrittenBytesAreReported() async throws {
        let seen = Shared<[Bool]>([])
        let server = try await TestRelayServer(
            .plain,
            .webSocket(
                onOpen: { _ in },
                onFrame: { frame, channel in
                    seen.withLock { $0.append(frame.maskKey != nil) }
                    if frame.opcode == .connectionClose { channel.close(promise: nil) }
                }
            )
        )
        var written = 0
        var connection: ControlConnection?
        for await event in try Self.dial("http://127.0.0.1:\(server.port)").events {
            switch event {
            case .opened(let opened):
                connection = opened
                opened.ping()
                for _ in 0..<10 { opened.send(ByteBuffer(repeating: 65, count: 1_000)) }
            case .written(let bytes):
                written += bytes
                if written == 10_000 { connection?.close(code: 1000, reason: String(repeating: "ü", count: 200)) }
            default: break
            }
        }
        #expect(written == 10_000)
        #expect(seen.value == Array(repeating: true, count: 12))
        await server.stop()
    }

    @Test func unansweredCloseEndsTheConnection() async throws {
        let server = try await TestRelayServer(.plain, .webSocket(onOpen: { _ in }, onFrame: { _, _ in }))
        var code: UInt16?
        for await event in try Self.dial("http://127.0.0.1:\(server.port)").events {
            if case .opened(let connection) = event { connection.close(code: 1001, reason: "") }
            if case .closed(let closed) = event { code = closed }
        }
        #expect(code == 1001)
        await server.stop()
    }

    // MARK: Nothing is left behind

    @Test func closedConnectionsLeaveNoSocket() async throws {
        let certificate = try TestCertificate()
        let plain = try await TestRelayServer(.plain, .echo)
        let tls = try await TestRelayServer(certificate.security, .echo)
        func once(_ index: Int) async throws {
            switch index % 4 {
            case 0: _ = await Self.exchangeHello(try Self.dial("http://127.0.0.1:\(plain.port)"))
            case 1: _ = await Self.exchangeHello(try Self.dial("https://127.0.0.1:\(tls.port)", relay: certificate.relayID))
            case 2: _ = await Self.exchangeHello(try Self.dial("https://127.0.0.1:\(tls.port)", relay: MachineBench.relay))
            default: try Self.dial("https://127.0.0.1:\(tls.port)", relay: certificate.relayID).dial.cancel()
            }
        }
        for index in 0..<200 { try await once(index) }
        #expect(await Self.connections(at: [plain.port, tls.port]) == [])
        await plain.stop()
        await tls.stop()
    }

    /// A connection's ports.
    private struct Connection: Equatable {
        let local: Int
        let peer: Int
    }

    /// The connections of this process with one of these ports, once there are none. A cancelled dial closes its socket a moment later.
    private static func connections(at ports: [Int]) async -> [Connection] {
        var connections: [Connection] = []
        for _ in 0..<1_200 {
            connections = (Int32(0)..<4_096).compactMap { descriptor in
                guard let local = port(descriptor, getsockname), let peer = port(descriptor, getpeername) else { return nil }
                return ports.contains(local) || ports.contains(peer) ? Connection(local: local, peer: peer) : nil
            }
            if connections.isEmpty { break }
            try? await Task.sleep(for: .milliseconds(50))
        }
        return connections
    }

    private static func port(
        _ descriptor: Int32,
        _ name: (Int32, UnsafeMutablePointer<sockaddr>?, UnsafeMutablePointer<socklen_t>?) -> Int32
    ) -> Int? {
        var address = [UInt8](repeating: 0, count: 128)
        var length = socklen_t(address.count)
        let result = address.withUnsafeMutableBytes { name(descriptor, $0.bindMemory(to: sockaddr.self).baseAddress, &length) }
        // One of IPv4, whose port is behind the family.
        guard result == 0, length == 16 else { return nil }
        return Int(address[2]) << 8 | Int(address[3])
    }
}
