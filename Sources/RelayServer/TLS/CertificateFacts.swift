// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
package import Foundation
import NIOCore
package import RelayProtocol
import SwiftASN1
import X509

/// What a server certificate says.
package struct CertificateFacts: Sendable {
    package let notValidBefore: Date
    package let notValidAfter: Date
    /// The host names in lower case, and addresses, that it is for.
    package let names: [String]
    /// Whether each certificate of the chain is followed by that of its issuer.
    package let isChainInOrder: Bool
    /// The relay whose own key it shows; `nil` with a key of another kind.
    package let keyOwner: RelayID?

    /// - Parameter pem: The chain, the server's own certificate first.
    /// - Throws: An error if it is no chain of certificates.
    package init(pem: String) throws {
        let documents = try PEMDocument.parseMultiple(pemString: pem)
        guard let first = documents.first else { throw Missing() }
        try self.init(Certificate(pemDocument: first), followedBy: documents.dropFirst().compactMap { try? Certificate(pemDocument: $0) })
    }

    /// - Parameter der: One certificate.
    package init(der: [UInt8]) throws { self.init(try Certificate(derEncoded: der), followedBy: []) }

    private struct Missing: Error {}

    private init(_ own: Certificate, followedBy others: [Certificate]) {
        notValidBefore = own.notValidBefore
        notValidAfter = own.notValidAfter
        names = Self.names(of: own)
        isChainInOrder = zip([own] + others, others).allSatisfy { $0.issuer == $1.subject }
        keyOwner = P256.Signing.PublicKey(own.publicKey).map { RelayID(SigningPublicKey($0)) }
    }

    /// Whether it should have been renewed by now: less than two weeks are left, or of a short life less than a sixth.
    package func isDue(at now: Date) -> Bool {
        let life = notValidAfter.timeIntervalSince(notValidBefore)
        return notValidAfter.timeIntervalSince(now) < min(life / 6, 14 * 86_400)
    }

    private static func names(of certificate: Certificate) -> [String] {
        guard let alternatives = try? certificate.extensions.subjectAlternativeNames else { return [] }
        return alternatives.compactMap { name in
            switch name {
            case .dnsName(let name): name.lowercased()
            case .ipAddress(let bytes): (try? SocketAddress(packedIPAddress: ByteBuffer(bytes: bytes.bytes), port: 0))?.ipAddress
            default: nil
            }
        }
    }
}
