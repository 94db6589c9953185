// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import RelayProtocol

extension P256SigningKey {
    /// Reads a private key in PEM, PKCS #8 ("p8") or SEC 1.
    init(pem: String) throws {
        try self.init(rawRepresentation: Array(P256.Signing.PrivateKey(pemRepresentation: pem).rawRepresentation))
    }
}
