// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import SwiftASN1
import X509

/// The names that a certificate is for.
package enum CertificateNames {
    /// The DNS names of the first certificate of a PEM text, in lower case; none if it cannot be read.
    package static func ofPEM(_ text: String) -> [String] {
        guard let names = try? Certificate(pemEncoded: text).extensions.subjectAlternativeNames else { return [] }
        return names.compactMap { name in
            guard case .dnsName(let text) = name else { return nil }
            return text.lowercased()
        }
    }
}
