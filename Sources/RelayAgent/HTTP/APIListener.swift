// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOSSL
import RelayProtocol

/// A TCP address of the API. Elsewhere than on this machine it has TLS.
struct APIListener: Hashable, Sendable {
    let host: String
    let port: Int
    let isLoopback: Bool
    /// PEM files; `nil` for none.
    private(set) var certificate: String?
    private(set) var key: String?
    /// The names that the certificate is for.
    private var names: [String] = []

    var address: String { "\(host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host):\(port)" }

    /// `ADDRESS:PORT`, with an IPv6 address in brackets.
    /// - Returns: `nil` for another form. A name is none: it may lead elsewhere tomorrow.
    init?(_ text: String) {
        guard let origin = Origin(scheme: "http", authority: text), let ip = IPAddress(parsing: origin.host.utf8) else { return nil }
        (host, port, isLoopback) = (origin.host, origin.port, ip.isLoopback)
        // The port has no default.
        guard address.utf8.elementsEqual(text.lowercased().utf8) else { return nil }
    }

    mutating func use(certificate: String, key: String) {
        (self.certificate, self.key) = (certificate, key)
        names = (try? String(contentsOfFile: certificate, encoding: .utf8)).map(CertificateNames.ofPEM) ?? []
    }

    /// Whether a value of `Host` is this listener: its address, or with a certificate one of its names.
    func serves(_ authority: String) -> Bool {
        guard let origin = Origin(scheme: certificate == nil ? "http" : "https", authority: authority), origin.port == port else {
            return false
        }
        // An address in `Host` is what the client has dialled.
        if let ip = IPAddress(parsing: origin.host.utf8) {
            let own = IPAddress(parsing: host.utf8)
            return own?.bytes.allSatisfy { $0 == 0 } ?? false || ip == own
        }
        return names.contains { $0.utf8.elementsEqual(origin.host.utf8) }
    }

    /// - Returns: `nil` without a certificate.
    /// - Throws: `AgentError` that names the file.
    func tls() throws -> TLSConfiguration? {
        guard let certificate, let key else { return nil }
        do {
            var settings = TLSConfiguration.makeServerConfiguration(
                certificateChain: try NIOSSLCertificate.fromPEMFile(certificate).map { .certificate($0) },
                privateKey: .privateKey(try NIOSSLPrivateKey(file: key, format: .pem))
            )
            settings.minimumTLSVersion = .tlsv12
            return settings
        } catch {
            throw AgentError("invalidSettings", "api.certificate or api.key in agent.yaml cannot be read: \(error)", .usage)
        }
    }
}
