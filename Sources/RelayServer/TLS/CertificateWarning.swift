// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
import NIOCore
package import RelayProtocol

/// Why endpoints will reject a certificate. The relay serves it nevertheless, because it may be renewed while the relay runs.
package enum CertificateWarning: Hashable, Sendable, CustomStringConvertible {
    case expired(Date)
    case notYetValid(Date)
    /// It does not name a host that endpoints dial.
    case otherName(host: String, names: [String])

    package var description: String {
        switch self {
        case .expired(let date): "the certificate has expired on \(date.formatted(.iso8601)); renew it"
        case .notYetValid(let date): "the certificate is not valid before \(date.formatted(.iso8601)); check the clock"
        case .otherName(let host, let names):
            names.isEmpty
                ? "the certificate is not for \(host), which the settings name, and names no host"
                : "the certificate is not for \(host), which the settings name, but for \(names.joined(separator: ", "))"
        }
    }

    /// - Parameter file: The PEM file of the chain.
    static func found(inFile file: String, for origins: [Origin], at now: Date = Date()) -> [CertificateWarning] {
        FileManager.default.contents(atPath: file).map { found(in: String(decoding: $0, as: UTF8.self), for: origins, at: now) } ?? []
    }

    /// - Parameters:
    ///   - pem: The chain, the relay's own certificate first.
    ///   - origins: The relay's public URLs.
    static func found(in pem: String, for origins: [Origin], at now: Date) -> [CertificateWarning] {
        guard let facts = try? CertificateFacts(pem: pem) else { return [] }
        return found(in: facts, for: origins, at: now)
    }

    package static func found(in certificate: CertificateFacts, for origins: [Origin], at now: Date) -> [CertificateWarning] {
        var problems: [CertificateWarning] = []
        if now > certificate.notValidAfter { problems.append(.expired(certificate.notValidAfter)) }
        if now < certificate.notValidBefore { problems.append(.notYetValid(certificate.notValidBefore)) }
        for origin in origins where origin.scheme == "https" && !certificate.names.contains(where: { matches($0, origin.host) }) {
            problems.append(.otherName(host: origin.host, names: certificate.names))
        }
        return problems
    }

    /// An asterisk stands for the first label (RFC 6125 §6.4.3).
    private static func matches(_ name: String, _ host: String) -> Bool {
        // An IPv6 address has several spellings.
        let host = (try? SocketAddress(ipAddress: host, port: 0))?.ipAddress ?? host
        if name.utf8.elementsEqual(host.utf8) { return true }
        let dot = UInt8(ascii: ".")
        guard name.utf8.starts(with: "*.".utf8), let end = host.utf8.firstIndex(of: dot), end != host.startIndex else { return false }
        return name.utf8.dropFirst().elementsEqual(host.utf8[end...])
    }
}
