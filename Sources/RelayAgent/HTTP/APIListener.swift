// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOSSL
import RelayProtocol

/// A TCP address of the API. Elsewhere than on this machine it has TLS.
struct APIListener: Hashable, Sendable {
    var host: String
    var port: Int
    /// PEM files; `nil` for none.
    var certificate: String?
    var key: String?

    var address: String { Self.authority(host, port) }

    /// `ADDRESS:PORT`, with an IPv6 address in brackets.
    /// - Returns: `nil` for another form. A name is none: it may lead elsewhere tomorrow.
    init?(_ text: String) {
        let (host, port) = Self.parts(text)
        guard let port, (1...65_535).contains(port), let address = IPAddress(parsing: host.utf8) else { return nil }
        (self.host, self.port, isLoopback) = (host, port, address.isLoopback)
    }

    let isLoopback: Bool

    /// Whether a value of `Host` is this listener: its address, or with a certificate one of its names.
    func serves(_ authority: String) -> Bool {
        let (host, port) = Self.parts(authority)
        guard (port ?? (certificate == nil ? 80 : 443)) == self.port else { return false }
        // An address in `Host` is what the client has dialled.
        if let address = IPAddress(parsing: host.utf8) { return isUnspecified || address == IPAddress(parsing: self.host.utf8) }
        return names.contains { $0.utf8.elementsEqual(host.utf8) }
    }

    private var names: [String] {
        certificate.flatMap { try? String(contentsOfFile: $0, encoding: .utf8) }.map(CertificateNames.ofPEM) ?? []
    }

    private var isUnspecified: Bool { IPAddress(parsing: host.utf8)?.bytes.allSatisfy { $0 == 0 } ?? false }

    private static func parts(_ authority: String) -> (host: String, port: Int?) {
        let text = authority.lowercased().utf8
        guard let colon = text.lastIndex(of: UInt8(ascii: ":")), text.last != UInt8(ascii: "]") else { return (unbracketed(text), nil) }
        return (unbracketed(text[..<colon]), Int(String(decoding: text[text.index(after: colon)...], as: UTF8.self)) ?? -1)
    }

    private static func unbracketed(_ host: some BidirectionalCollection<UInt8>) -> String {
        let isBracketed = host.first == UInt8(ascii: "[") && host.last == UInt8(ascii: "]")
        return String(decoding: isBracketed ? Array(host.dropFirst().dropLast()) : Array(host), as: UTF8.self)
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

    private static func authority(_ host: String, _ port: Int) -> String {
        (host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host) + ":\(port)"
    }
}
