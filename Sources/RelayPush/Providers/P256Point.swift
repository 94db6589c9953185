// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto

/// The public point of a private key, uncompressed (65 bytes).
struct P256Point {
    let bytes: [UInt8]

    init(pem: String) throws {
        bytes = Array(try P256.Signing.PrivateKey(pemRepresentation: pem).publicKey.x963Representation)
    }
}
