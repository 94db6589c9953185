// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
import SwiftASN1
package import X509

/// The authorities that verify a relay's certificate if the pinned key does not match or no key is pinned.
package enum TrustRoots: Sendable {
    /// The system's authorities. On other systems than Apple's, the environment variable `SSL_CERT_FILE` may name a file, as for OpenSSL.
    case system
    /// A PEM file that replaces the system's authorities.
    case file(URL)
    case certificates([Certificate])

    /// Loads the certificates; `nil` if only the system can verify.
    /// - Throws: An error if the file cannot be read, or contains no certificate.
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
