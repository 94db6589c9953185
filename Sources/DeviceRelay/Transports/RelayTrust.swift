// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import NIOSSL
package import RelayProtocol
import SwiftASN1
import X509

#if canImport(Security)
import Security
#endif

/// Why a certificate is not trusted.
package enum RelayTrustError: Hashable, Sendable {
    case noCertificate
    /// The certificate is self-signed, and its key is not the pinned key.
    case otherKey(RelayID)
    /// The chain does not lead to a trusted authority, or the name differs.
    case notTrusted
    /// The file of authorities cannot be read, or contains no certificate.
    case authoritiesUnreadable
}

/// Decides whether a server is the relay. It is, if its certificate has the pinned key, whatever the names and dates. Otherwise the
/// certificate must be valid for the dialled name, by the system's authorities or by those given here.
package struct RelayTrust: Sendable {
    private let relay: RelayID?
    private let authorities: TrustRoots

    package init(relay: RelayID?, authorities: TrustRoots = .system) {
        self.relay = relay
        self.authorities = authorities
    }

    /// For another server than the relay: by the same authorities.
    var withoutKey: RelayTrust { RelayTrust(relay: nil, authorities: authorities) }

    enum Verdict: Hashable {
        case trusted
        case refused(RelayTrustError)
        /// The authorities decide.
        case undecided
    }

    /// The verdict by the pinned key alone.
    func verdict(byKeyOf chain: [NIOSSLCertificate]) -> Verdict {
        guard let leaf = chain.first else { return .refused(.noCertificate) }
        guard let relay, let key = Self.key(of: leaf), RelayID(key) == relay else { return .undecided }
        return .trusted
    }

    /// The verdict by the authorities.
    func verdict(byAuthoritiesOf chain: [NIOSSLCertificate], host: String) async -> Verdict {
        let roots: CertificateStore?
        do { roots = try authorities.store() } catch { return .refused(.authoritiesUnreadable) }
        if await isTrusted(chain, host: host, roots: roots) { return .trusted }
        guard relay != nil, let leaf = chain.first, let certificate = Self.certificate(leaf), certificate.issuer == certificate.subject,
            let key = Self.key(of: leaf)
        else { return .refused(.notTrusted) }
        return .refused(.otherKey(RelayID(key)))
    }

    private static func key(of certificate: NIOSSLCertificate) -> SigningPublicKey? {
        (try? certificate.extractPublicKey().toSPKIBytes()).flatMap { try? SigningPublicKey(spki: $0) }
    }

    private static func certificate(_ certificate: NIOSSLCertificate) -> Certificate? {
        (try? certificate.toDERBytes()).flatMap { try? Certificate(derEncoded: $0) }
    }

    private func isTrusted(_ chain: [NIOSSLCertificate], host: String, roots: CertificateStore?) async -> Bool {
        guard let roots else {
            #if canImport(Security)
            return await Self.isTrustedBySystem(chain, host: host)
            #else
            return false
            #endif
        }
        let certificates = chain.compactMap(Self.certificate)
        guard let leaf = certificates.first, certificates.count == chain.count else { return false }
        let isAddress = (try? SocketAddress(ipAddress: host, port: 0)) != nil
        var verifier = Verifier(rootCertificates: roots) {
            RFC5280Policy()
            ServerIdentityPolicy(serverHostname: isAddress ? nil : host, serverIP: isAddress ? host : nil)
        }
        switch await verifier.validate(leaf: leaf, intermediates: CertificateStore(certificates.dropFirst())) {
        case .validCertificate: return true
        case .couldNotValidate: return false
        }
    }

    #if canImport(Security)
    /// On Apple systems only the Security framework has access to the system's roots.
    private static func isTrustedBySystem(_ chain: [NIOSSLCertificate], host: String) async -> Bool {
        let certificates = chain.compactMap { (try? $0.toDERBytes()).flatMap { SecCertificateCreateWithData(nil, Data($0) as CFData) } }
        guard certificates.count == chain.count else { return false }
        var trust: SecTrust?
        let policy = SecPolicyCreateSSL(true, host as CFString)
        guard SecTrustCreateWithCertificates(certificates as CFArray, policy, &trust) == errSecSuccess, let trust else { return false }
        return SecTrustEvaluateWithError(trust, nil)
    }
    #endif
}
