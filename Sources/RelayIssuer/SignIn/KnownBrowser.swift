// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import RelayProtocol

/// The secret in a cookie of a browser in which a user has signed in before. It does not sign the user in. The browser's attempts to sign
/// in as this user have limits of their own, so that attackers elsewhere cannot use them up.
struct KnownBrowser: Hashable, Sendable {
    private static let idBytes = 16
    static let life: Int64 = 365 * 86_400_000

    private let bytes: Secret<[UInt8]>

    /// - Parameter former: The former secret of the browser. It is kept if it is of the same user, so that its failures stay counted.
    init(of subject: String, by key: SymmetricKey, after former: KnownBrowser? = nil) {
        if let former, former.isOf(subject, by: key) {
            self = former
        } else {
            let id = randomBytes(KnownBrowser.idBytes)
            self.bytes = Secret(id + KnownBrowser.code(id, subject, by: key))
        }
    }

    init?(parsing text: String) {
        guard text.utf8.count <= 128, let bytes = Base64.url.decode(text), bytes.count == KnownBrowser.idBytes + SHA256.byteCount else {
            return nil
        }
        self.bytes = Secret(bytes)
    }

    var text: Secret<String> { Secret(Base64.url.encode(bytes.exposed)) }

    /// The name under which the browser's failures are counted.
    var name: String { Base64.url.encode(bytes.exposed.prefix(KnownBrowser.idBytes)) }

    func isOf(_ subject: String, by key: SymmetricKey) -> Bool {
        let id = Array(bytes.exposed.prefix(KnownBrowser.idBytes))
        return HMAC<SHA256>.isValidAuthenticationCode(
            bytes.exposed.dropFirst(KnownBrowser.idBytes),
            authenticating: id + Array(subject.utf8),
            using: key
        )
    }

    private static func code(_ id: [UInt8], _ subject: String, by key: SymmetricKey) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: id + Array(subject.utf8), using: key))
    }
}
