// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import SwiftASN1
package import X509

#if canImport(FoundationEssentials)
package import FoundationEssentials
#else
package import Foundation
#endif

/// The authorities that a relay's certificate is checked with, where no key is pinned.
package enum TrustRoots: Sendable {
    /// The system's. Elsewhere than on Apple systems the environment may name others, as for OpenSSL: the file in `SSL_CERT_FILE`.
    case system
    /// A PEM file, in place of the system's.
    case file(URL)
    case certificates([Certificate])

    /// `nil` for those that only the system knows.
    /// - Throws: if the file cannot be read, or holds no certificate.
    func store() throws -> CertificateStore? {
        switch self {
        case .certificates(let certificates): return CertificateStore(certificates)
        case .file(let url): return CertificateStore(try Self.certificates(in: url))
        case .system:
            #if canImport(Darwin)
            return nil
            #else
            guard let path = ProcessInfo.processInfo.environment["SSL_CERT_FILE"], !path.isEmpty else { return .systemTrustRoots }
            return CertificateStore(try Self.certificates(in: URL(filePath: path)))
            #endif
        }
    }

    /// The certificates of a PEM file.
    package static func certificates(in file: URL) throws -> [Certificate] {
        let text = String(decoding: try Data(contentsOf: file), as: UTF8.self)
        let certificates = try PEMDocument.parseMultiple(pemString: text)
            .filter { $0.discriminator == Certificate.defaultPEMDiscriminator }
            .map { try Certificate(pemDocument: $0) }
        guard !certificates.isEmpty else { throw NoCertificate() }
        return certificates
    }

    private struct NoCertificate: Error {}
}
