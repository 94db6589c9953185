// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
package import RelayProtocol

/// The secret in a browser's cookie. It names a session if a user has signed in with it, and its forms carry a code made from
/// it. It is replaced at each sign-in and sign-out.
struct BrowserToken: Hashable, Sendable {
    private let bytes: Secret<[UInt8]>

    init() { self.bytes = Secret(randomBytes(32)) }

    init?(parsing text: String) {
        guard text.utf8.count == 43, let bytes = Base64.url.decode(text) else { return nil }
        self.bytes = Secret(bytes)
    }

    var text: Secret<String> { Secret(Base64.url.encode(bytes.exposed)) }

    /// The id under which the session is stored.
    var session: Digest256 { Digest256(hashing: bytes.exposed) }

    /// Returns the code of the forms that this browser is given.
    func formCode(by key: SymmetricKey) -> String {
        Base64.url.encode(HMAC<SHA256>.authenticationCode(for: bytes.exposed, using: key))
    }

    func accepts(_ code: String?, by key: SymmetricKey) -> Bool {
        guard let code = code.flatMap(Base64.url.decode) else { return false }
        return HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: bytes.exposed, using: key)
    }
}

/// A browser in which a user has signed in.
package struct WebSession: Hashable, Sendable {
    package static let idleLife: Int64 = 7 * 86_400_000
    package static let wholeLife: Int64 = 30 * 86_400_000
    /// How long after a sign-in the credentials may be changed, in milliseconds.
    static let freshness: Int64 = 600_000
    /// The maximum number of sessions of one user. For a new one, the least recently used one ends.
    package static let maximum = 32
    static let maximumAgentCharacters = 120

    package let id: Digest256
    package let subject: String
    /// The browser, as `BrowserName` shows it.
    package let agent: String
    package let created: Milliseconds
    package var used: Milliseconds

    package func isOver(at now: Milliseconds) -> Bool {
        now.count - used.count >= WebSession.idleLife || now.count - created.count >= WebSession.wholeLife
    }

    /// Whether the user signed in so recently that credentials may be changed.
    func isFresh(at now: Milliseconds) -> Bool { now.count - created.count < WebSession.freshness }
}

/// A browser in which a user has just signed in.
struct SignedInBrowser: Sendable {
    let subject: String
    /// The browser's new secret. The old one no longer signs in.
    let token: BrowserToken
    let known: KnownBrowser
}

/// How a set-up was started.
package enum SetUpKind: String, Sendable {
    /// With the operator's link. Others may know the old ways to sign in.
    case link
    /// With the operator's link, which ends all other ways to sign in.
    case reset
    /// With a recovery code.
    case recovery
}

/// The secret of a link with which a person sets up how to sign in. It works once.
struct SetUpToken: Hashable, Sendable {
    /// How long an operator's link works.
    static let life: Int64 = 86_400_000
    /// How long it works after a recovery code was used.
    static let recoveryLife: Int64 = 600_000

    private let bytes: Secret<[UInt8]>

    init() { self.bytes = Secret(randomBytes(32)) }

    init?(parsing text: String) {
        guard text.utf8.count == 43, let bytes = Base64.url.decode(text) else { return nil }
        self.bytes = Secret(bytes)
    }

    var digest: Digest256 { Digest256(hashing: bytes.exposed) }
    var text: Secret<String> { Secret(Base64.url.encode(bytes.exposed)) }
}
