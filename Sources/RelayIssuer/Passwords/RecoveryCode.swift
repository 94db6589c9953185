// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
package import RelayProtocol

/// A code on paper with which a person who has lost the password sets up a new one. It works once.
package struct RecoveryCode: Hashable, Sendable {
    /// The codes of one user. New ones replace all old ones.
    static let count = 10
    static let letters = 16

    private let code: Secret<[UInt8]>

    init() {
        let halves = [UserCode(), UserCode()]
        self.code = Secret(halves.flatMap { $0.text.utf8.filter { $0 != UInt8(ascii: "-") } })
    }

    /// Reads a code that a person typed. Case, spaces and hyphens are ignored.
    package init?(typed text: String) {
        guard text.utf8.count <= 64 else { return nil }
        let letters = text.utf8.filter { $0 != UInt8(ascii: "-") && $0 != UInt8(ascii: " ") }.map {
            (0x61...0x7A).contains($0) ? $0 - 0x20 : $0
        }
        guard letters.count == RecoveryCode.letters, letters.allSatisfy(UserCode.alphabet.contains) else { return nil }
        self.code = Secret(letters)
    }

    package var text: Secret<String> {
        let groups = stride(from: 0, to: RecoveryCode.letters, by: 4).map { String(decoding: code.exposed[$0..<($0 + 4)], as: UTF8.self) }
        return Secret(groups.joined(separator: "-"))
    }

    func digest(by key: SymmetricKey) -> Digest256 {
        Digest256(hashing: Array(HMAC<SHA256>.authenticationCode(for: code.exposed, using: key)))
    }
}
