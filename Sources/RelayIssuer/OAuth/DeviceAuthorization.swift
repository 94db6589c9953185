// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
package import RelayProtocol

/// A device without a browser of its own that waits for its user to allow it elsewhere (RFC 8628).
package struct DeviceAuthorization: Hashable, Sendable {
    static let life: Int64 = 600_000
    /// How long a code is kept after its expiry, in milliseconds, so that the device is told that it has expired.
    package static let memory: Int64 = 600_000
    /// The minimum time between two requests of a device, in milliseconds.
    static let interval: Int64 = 5_000
    /// The maximum number of pending devices. A further one replaces another one, from the network with the most pending devices.
    package static let maximum = 10_000
    static let maximumNameCharacters = 64

    package enum Decision: Hashable, Sendable {
        case pending
        case allowed(subject: String)
        case denied
    }

    package let code: Digest256
    /// The digest of the code that the user enters, under a key of the issuer. The plain hash of a short code could be guessed.
    package let userCode: Digest256
    package let client: String
    package let scopes: Scopes
    /// The device, as it names itself.
    package let device: String
    package let platform: String
    package let expires: Milliseconds
    package var decision = Decision.pending

    func isPending(at now: Milliseconds) -> Bool { decision == .pending && now < expires }

    enum Answer: Hashable {
        case grant(subject: String)
        case refuse(OAuthError)
    }

    /// Returns the answer to the device's request with its code.
    func answer(client: String, now: Milliseconds) -> Answer {
        guard client.utf8.elementsEqual(self.client.utf8) else { return .refuse(TokenRequest.unknownDeviceCode) }
        guard now < expires else { return .refuse(OAuthError(.expiredToken, "the code has expired; begin again")) }
        switch decision {
        case .pending: return .refuse(OAuthError(.authorizationPending, "the user has not decided yet; ask again after the interval"))
        case .denied: return .refuse(OAuthError(.accessDenied, "the user does not allow it"))
        case .allowed(let subject): return .grant(subject: subject)
        }
    }
}

/// The code that a user types: 8 letters without vowels, so that it does not form a word.
package struct UserCode: Hashable, Sendable {
    static let alphabet = Array("BCDFGHJKLMNPQRSTVWXZ".utf8)
    static let count = 8

    private let letters: [UInt8]

    init() {
        var letters: [UInt8] = []
        // Bytes of 240 and above would make some letters more frequent.
        while letters.count < UserCode.count {
            letters += randomBytes(16).filter { $0 < 240 }.map { UserCode.alphabet[Int($0) % UserCode.alphabet.count] }
        }
        self.letters = Array(letters.prefix(UserCode.count))
    }

    /// Reads a code that a person typed. Case, spaces and hyphens are ignored.
    package init?(typed text: String) {
        guard text.utf8.count <= 32 else { return nil }
        let letters = text.utf8.filter { $0 != UInt8(ascii: "-") && $0 != UInt8(ascii: " ") }.map {
            (0x61...0x7A).contains($0) ? $0 - 0x20 : $0
        }
        guard letters.count == UserCode.count, letters.allSatisfy(UserCode.alphabet.contains) else { return nil }
        self.letters = letters
    }

    package var text: String {
        String(decoding: letters.prefix(4), as: UTF8.self) + "-" + String(decoding: letters.suffix(4), as: UTF8.self)
    }

    func digest(by key: SymmetricKey) -> Digest256 {
        Digest256(hashing: Array(HMAC<SHA256>.authenticationCode(for: letters, using: key)))
    }
}

/// The response to a device (RFC 8628 §3.2).
struct DeviceAuthorizationResponse: Encodable, Sendable {
    var deviceCode: Secret<String>
    var userCode: String
    var verificationURI: String
    var verificationURIComplete: String
    var expiresIn = DeviceAuthorization.life / 1_000
    var interval = DeviceAuthorization.interval / 1_000

    init(deviceCode: Secret<String>, userCode: UserCode, issuer: String) {
        self.deviceCode = deviceCode
        self.userCode = userCode.text
        verificationURI = issuer + "/device"
        verificationURIComplete = issuer + "/device?user_code=" + userCode.text
    }

    private enum CodingKeys: String, CodingKey {
        case interval
        case deviceCode = "device_code"
        case userCode = "user_code"
        case verificationURI = "verification_uri"
        case verificationURIComplete = "verification_uri_complete"
        case expiresIn = "expires_in"
    }
}
