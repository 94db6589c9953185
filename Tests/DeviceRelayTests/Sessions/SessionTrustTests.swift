// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import DeviceRelay
import NIOCore
import NIOSSL
import RelayProtocol
import Testing

/// Which peers a session accepts.
@Suite(.timeLimit(.minutes(10))) struct SessionTrustTests {
    /// The error codes of both sides of a session. One side may be a different endpoint or a plain TLS client.
    static func outcome(
        opener: @escaping @Sendable (TunnelTransport, SessionSide) async -> AppServiceError.Code?,
        target: @escaping @Sendable (TunnelTransport, SessionSide) async -> AppServiceError.Code?
    ) async throws -> (opener: AppServiceError.Code?, target: AppServiceError.Code?) {
        let relay = try await TestTunnelRelay()
        let tunnel = relay.tunnel()
        let (openerSide, targetSide) = (try SessionSide(), try SessionSide())
        async let atTarget = target(tunnel.target, openerSide)
        let atOpener = await opener(tunnel.opener, targetSide)
        let codes = (atOpener, await atTarget)
        await relay.stop()
        return codes
    }

    static func open(_ side: SessionSide, to peer: EndpointID, _ transport: TunnelTransport) async -> AppServiceError.Code? {
        await code { () async throws(AppServiceError) in
            try await side.connector.open(to: peer, over: transport, timeout: .seconds(10))
        }
    }

    static func accept(_ side: SessionSide, _ transport: TunnelTransport, knows: @escaping @Sendable (EndpointID) -> Bool) async
        -> AppServiceError.Code?
    {
        await code { () async throws(AppServiceError) in
            try await side.connector.acceptSession(over: transport, timeout: .seconds(10)) { knows($0) }
        }
    }

    @Test func unexpectedTargetIsRejected() async throws {
        let (target, meant, opener) = (try SessionSide(), try SessionSide(), try SessionSide())
        let codes = try await Self.outcome(
            opener: { transport, _ in await Self.open(opener, to: meant.id, transport) },
            target: { transport, _ in await Self.accept(target, transport) { _ in true } }
        )
        #expect(codes.opener == .authenticationError)
        #expect(codes.target == .authenticationError)
    }

    @Test func unacceptedOpenerIsRejected() async throws {
        let (target, opener) = (try SessionSide(), try SessionSide())
        let asked = Shared<[EndpointID]>([])
        let codes = try await Self.outcome(
            opener: { transport, _ in await Self.open(opener, to: target.id, transport) },
            target: { transport, _ in
                await Self.accept(target, transport) { id in
                    asked.withLock { $0.append(id) }
                    return false
                }
            }
        )
        // The client has ended its part of the handshake when the server rejects it.
        #expect(codes.opener == .authenticationError)
        #expect(codes.target == .authenticationError)
        #expect(asked.value == [opener.id])
    }

    /// A TLS client that is not the SDK.
    struct TLSClient {
        var certificate: TestCertificate?
        var applicationProtocols = ["device-relay/1"]
        var maximumVersion: TLSVersion?
        var sends: [UInt8] = []

        func open(_ transport: TunnelTransport) async -> AppServiceError.Code? {
            let closed = Signal()
            do {
                var configuration = try certificate?.clientConfiguration() ?? .makeClientConfiguration()
                configuration.certificateVerification = .none
                configuration.applicationProtocols = applicationProtocols
                configuration.maximumTLSVersion = maximumVersion
                let context = try NIOSSLContext(configuration: configuration)
                let channel = try await transport.connect(timeout: .seconds(10)) { channel in
                    try channel.pipeline.syncOperations.addHandler(NIOSSLClientHandler(context: context, serverHostname: nil))
                    try channel.pipeline.syncOperations.addHandler(QuietHandler())
                    channel.closeFuture.whenComplete { _ in closed.happen() }
                }
                channel.writeAndFlush(ByteBuffer(bytes: sends), promise: nil)
                await closed.wait()
            } catch {
                closed.happen()
            }
            return nil
        }
    }

    static func invalidClients() throws -> [(String, TLSClient)] {
        [
            ("no certificate", TLSClient()),
            ("another protocol", TLSClient(certificate: try TestCertificate(), applicationProtocols: ["h2"])),
            ("no protocol", TLSClient(certificate: try TestCertificate(), applicationProtocols: [])),
            ("TLS 1.2", TLSClient(certificate: try TestCertificate(), maximumVersion: .tlsv12)),
        ]
    }

    @Test func invalidOpenersAreRejected() async throws {
        for (name, client) in try Self.invalidClients() {
            let target = try SessionSide()
            let codes = try await Self.outcome(
                opener: { transport, _ in await client.open(transport) },
                target: { transport, _ in await Self.accept(target, transport) { _ in true } }
            )
            #expect(codes.target == .authenticationError, "\(name)")
        }
    }

    @Test func certificateContentsAreIgnored() async throws {
        // Other name, other dates, made by another library.
        let certificate = try TestCertificate(name: "other name")
        let client = TLSClient(certificate: certificate, sends: Array(Self.settings))
        let id = EndpointID(SigningPublicKey(certificate.key.publicKey))
        let relay = try await TestTunnelRelay()
        let target = try SessionSide()
        let tunnel = relay.tunnel()
        async let opened = client.open(tunnel.opener)
        let session = try await target.connector.acceptSession(over: tunnel.target) { $0 == id }
        #expect(session.peer == id)
        await session.shutDown()
        _ = await opened
        await relay.stop()
    }

    static var settings: [UInt8] {
        var bytes = ByteBuffer()
        SessionFrameEncoder.write(SessionFrame(.settings(SessionSettings())), to: &bytes)
        return Array(bytes.readableBytesView)
    }

    @Test func signOnlyKeysAuthenticate() async throws {
        /// Signs, and shows nothing.
        struct Enclave: IdentityKey {
            let key = P256SigningKey()
            let count = Shared(0)
            var publicKey: SigningPublicKey { key.publicKey }
            func signature(for message: [UInt8]) throws -> [UInt8] {
                count.withLock { $0 += 1 }
                return try key.signature(for: message)
            }
        }
        let (openerKey, targetKey) = (Enclave(), Enclave())
        let (opener, target) = (try SessionSide(key: openerKey), try SessionSide(key: targetKey, services: [.echo()]))
        let relay = try await TestTunnelRelay()
        for _ in 0..<2 {
            let tunnel = relay.tunnel()
            async let accepted = target.connector.acceptSession(over: tunnel.target) { $0 == opener.id }
            let session = try await opener.connector.open(to: target.id, over: tunnel.opener)
            let connection = try await session.open(SessionWorld.info, timeout: .seconds(10))
            #expect(try await connection.send(["Text": "signed"]) == ["Text": "signed"])
            await session.shutDown()
            await (try accepted).shutDown()
        }
        // The certificate once, and each handshake anew: nothing is resumed.
        #expect(openerKey.count.value == 3)
        #expect(targetKey.count.value == 3)
        await relay.stop()
    }

    @Test func failingKeyFailsTheHandshake() async throws {
        /// Signs its certificate and then no more.
        struct Locked: IdentityKey {
            struct IsLocked: Error {}
            let key = P256SigningKey()
            let count = Shared(0)
            var publicKey: SigningPublicKey { key.publicKey }
            func signature(for message: [UInt8]) throws -> [UInt8] {
                let isFirst = count.withLock { count in
                    count += 1
                    return count == 1
                }
                guard isFirst else { throw IsLocked() }
                return try key.signature(for: message)
            }
        }
        let (target, opener) = (try SessionSide(), try SessionSide(key: Locked()))
        let codes = try await Self.outcome(
            opener: { transport, _ in await Self.open(opener, to: target.id, transport) },
            target: { transport, _ in await Self.accept(target, transport) { _ in true } }
        )
        #expect(codes.opener != nil)
        #expect(codes.target != nil)
    }
}

/// Reads and discards all data.
final class QuietHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {}
    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
