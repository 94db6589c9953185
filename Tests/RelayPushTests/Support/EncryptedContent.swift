// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto

/// Reads `aes128gcm` (RFC 8188) with any number of records, and a subscriber's messages (RFC 8291).
enum EncryptedContent {
    struct Header {
        let salt: [UInt8]
        let recordSize: Int
        let keyID: [UInt8]
        let records: [UInt8]

        init?(_ body: [UInt8]) {
            guard body.count >= 21, body.count >= 21 + Int(body[20]) else { return nil }
            salt = Array(body[..<16])
            recordSize = body[16..<20].reduce(0) { $0 << 8 | Int($1) }
            keyID = Array(body[21..<(21 + Int(body[20]))])
            records = Array(body[(21 + Int(body[20]))...])
        }
    }

    static func open(_ body: [UInt8], inputKey: SymmetricKey) -> [UInt8]? {
        guard let header = Header(body), header.recordSize >= 18, !header.records.isEmpty else { return nil }
        func derive(_ info: String, _ count: Int) -> [UInt8] {
            let key = HKDF<SHA256>.deriveKey(
                inputKeyMaterial: inputKey,
                salt: header.salt,
                info: Array("Content-Encoding: \(info)".utf8) + [0],
                outputByteCount: count
            )
            return key.withUnsafeBytes { Array($0) }
        }
        let key = SymmetricKey(data: derive("aes128gcm", 16))
        let base = derive("nonce", 12)
        var content: [UInt8] = []
        let starts = Array(stride(from: 0, to: header.records.count, by: header.recordSize))
        for (number, start) in starts.enumerated() {
            let record = Array(header.records[start..<min(start + header.recordSize, header.records.count)])
            var nonce = base
            for place in 0..<8 { nonce[11 - place] ^= UInt8(truncatingIfNeeded: number >> (8 * place)) }
            guard record.count > 16, let iv = try? AES.GCM.Nonce(data: nonce),
                let box = try? AES.GCM.SealedBox(nonce: iv, ciphertext: record.dropLast(16), tag: record.suffix(16)),
                var plain = (try? AES.GCM.open(box, using: key)).map(Array.init)
            else { return nil }
            while plain.last == 0 { plain.removeLast() }
            // 1 ends a record, 2 the last one.
            guard plain.popLast() == (number == starts.count - 1 ? 2 : 1) else { return nil }
            content += plain
        }
        return content
    }

    /// A message of a sender whose public key is the key id.
    static func open(_ body: [UInt8], by subscriber: P256.KeyAgreement.PrivateKey, secret: [UInt8]) -> [UInt8]? {
        guard let header = Header(body), let sender = try? P256.KeyAgreement.PublicKey(x963Representation: header.keyID),
            let shared = try? subscriber.sharedSecretFromKeyAgreement(with: sender)
        else { return nil }
        let own = Array(subscriber.publicKey.x963Representation)
        let inputKey = shared.hkdfDerivedSymmetricKey(
            using: SHA256.self,
            salt: secret,
            sharedInfo: Array("WebPush: info".utf8) + [0] + own + header.keyID,
            outputByteCount: 32
        )
        return open(body, inputKey: inputKey)
    }
}
