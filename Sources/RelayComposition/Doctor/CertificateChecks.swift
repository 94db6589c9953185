// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import NIOTLS
import RelayProtocol
import RelayServer

extension RelayDoctor {
    /// The certificate of the settings, and those that clients see.
    /// - Parameter isOwnKeyPinned: Whether the relay says that clients see its own key: then its links pin it.
    func certificates(_ origins: [Origin], of relay: RelayID, isOwnKeyPinned: Bool) async -> [Check] {
        var checks: [Check] = []
        if let file = configuration.certificateFile { checks.append(certificate(inFile: file, origins)) }
        for origin in origins where origin.isEncrypted {
            guard let der = await Self.served(by: origin), let facts = try? CertificateFacts(der: der) else { continue }
            checks.append(
                facts.keyOwner == relay
                    ? ownKey(at: origin, isPinned: isOwnKeyPinned) : certificate(facts, "that of \(origin)", [origin])
            )
        }
        return checks
    }

    /// The certificate of the relay's own key names nothing and is not renewed. Clients know it by the key, if their links name the relay's id.
    private func ownKey(at origin: Origin, isPinned: Bool) -> Check {
        guard !isPinned else {
            return Check(.certificate, .ok, "\(origin) shows the relay's own key, which links pin; browsers need another (docs/https.md)")
        }
        return Check(
            .certificate,
            .failed,
            "\(origin) shows the relay's own key, but the relay expects a proxy there, and its links do not pin the key",
            advice: "let the proxy have a certificate for \(origin.host), and forward to the relay (docs/https.md), or correct --url"
        )
    }

    private func certificate(inFile file: String, _ origins: [Origin]) -> Check {
        guard let bytes = FileManager.default.contents(atPath: file),
            let facts = try? CertificateFacts(pem: String(decoding: bytes, as: UTF8.self))
        else {
            return Check(
                .certificate,
                .failed,
                "\(file) cannot be read, or is no certificate in PEM",
                advice: "see what it has: \(ShellText.command("openssl x509 -noout -subject -enddate -in", file))"
            )
        }
        do {
            if let key = configuration.keyFile { _ = try TLSContext(.files(certificate: file, key: key)) }
        } catch {
            return Check(.certificate, .failed, "\(error)", advice: "name the key of this certificate with --key-file")
        }
        guard facts.isChainInOrder else {
            return Check(
                .certificate,
                .failed,
                "the certificates in \(file) do not follow each other, so clients do not find the authority",
                advice: "write the relay's own certificate first, and after each one that of its issuer (certbot: fullchain.pem)"
            )
        }
        return certificate(facts, "that in \(file)", origins)
    }

    private func certificate(_ facts: CertificateFacts, _ what: String, _ origins: [Origin]) -> Check {
        let time = Date(timeIntervalSince1970: Double(now.count) / 1_000)
        if let warning = CertificateWarning.found(in: facts, for: origins, at: time).first {
            return Check(
                .certificate,
                .failed,
                "\(what): \(warning)",
                advice: advice(warning)
            )
        }
        let left = ClockDifference.size(ofSeconds: Int(max(0, min(facts.notValidAfter.timeIntervalSince(time), 1e12))))
        guard !facts.isDue(at: time) else {
            return Check(
                .certificate,
                .warning,
                "\(what) is valid for \(left) more, and should have been renewed",
                advice: "see why it was not: journalctl --unit caddy --unit certbot --lines 50"
            )
        }
        return Check(.certificate, .ok, "\(what) is valid for \(left) more")
    }

    private func advice(_ warning: CertificateWarning) -> String {
        switch warning {
        case .expired: "see why it was not renewed: journalctl --unit caddy --unit certbot --lines 50"
        case .notYetValid: "see whether the clock is right: timedatectl"
        case .otherName(let host, _): "get one for \(host) (docs/https.md), or name with --url the host that it is for"
        }
    }

    /// Reads the certificate of a server, and does not verify its issuer. It sends no request. Returns `nil` without a certificate.
    private static func served(by origin: Origin) async -> [UInt8]? {
        var settings = TLSConfiguration.makeClientConfiguration()
        // It is looked at, not trusted: `ServiceChecks` verifies it as a device does.
        settings.certificateVerification = .none
        guard let context = try? NIOSSLContext(configuration: settings) else { return nil }
        let isName = (try? SocketAddress(ipAddress: origin.host, port: 0)) == nil
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let shown = loop.makePromise(of: [UInt8]?.self)
        let timeout = loop.scheduleTask(in: .seconds(10)) { shown.succeed(nil) }
        let connecting = ClientBootstrap(group: loop).connectTimeout(.seconds(5)).channelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandlers(
                    NIOSSLClientHandler(context: context, serverHostname: isName ? origin.host : nil),
                    ShownCertificate(shown)
                )
            }
        }.connect(host: origin.host, port: origin.port)
        connecting.whenFailure { _ in shown.succeed(nil) }
        let bytes = try? await shown.futureResult.get()
        timeout.cancel()
        try? await connecting.flatMap { $0.close() }.get()
        return bytes ?? nil
    }
}

/// Takes the server's certificate after the handshake.
private final class ShownCertificate: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let shown: EventLoopPromise<[UInt8]?>

    init(_ shown: EventLoopPromise<[UInt8]?>) { self.shown = shown }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case TLSUserEvent.handshakeCompleted? = event as? TLSUserEvent else { return }
        shown.succeed(try? context.pipeline.syncOperations.nioSSL_peerCertificate()?.toDERBytes())
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        shown.succeed(nil)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) { shown.succeed(nil) }
}
