// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol
import Synchronization

/// A login of a client. All tokens that result from it share the login.
package struct Login: Codable, Hashable, Sendable {
    /// The key of the trusted issuer.
    package var issuer: String
    package var session: String

    package init(issuer: String, session: String) {
        self.issuer = issuer
        self.session = session
    }

    /// All tokens that a key of an issuer has signed, as if they were one login. No login of the relay's own issuer has a space in its name.
    package init(issuer: String, key: String) { self.init(issuer: issuer, session: "key \(key)") }

    /// A single token, as if it were a login of its own. A signed token is named by what its issuer signed: anyone who has an ECDSA
    /// signature can write another valid one of the same bytes.
    package init(token: String) {
        let named = (try? SignedJSON(parsing: token))?.signed ?? Array(token.utf8)
        self.init(issuer: "", session: Digest256(hashing: named).description)
    }
}

/// The revoked logins, and the channels that depend on other logins.
package final class LoginRegistry: Sendable {
    private struct State {
        var revoked = RevokedLogins()
        var followers: [Login: [ObjectIdentifier: RevocationObserver]] = [:]
    }

    private let state = Mutex(State())

    package init() {}

    package func isRevoked(_ login: Login) -> Bool { state.withLock { $0.revoked.contains(login) } }

    /// - Parameter until: When the last of its tokens expires.
    package func revoke(_ login: Login, until: Milliseconds, now: Milliseconds) {
        let followers = state.withLock { state in
            state.revoked.insert(login, until: until, now: now)
            return state.followers.removeValue(forKey: login) ?? [:]
        }
        for follower in followers.values { follower.revoked() }
    }

    /// Calls back once when a login is revoked; at once if it is already.
    package func follow(_ login: Login, revoked: @escaping @Sendable () -> Void) -> RevocationObserver {
        let follower = RevocationObserver(login: login, logins: self, revoked: revoked)
        // The same lock as in `revoke`, so that no revocation falls between the check and the registration.
        let isTooLate = state.withLock { state in
            if state.revoked.contains(login) { return true }
            state.followers[login, default: [:]][ObjectIdentifier(follower)] = follower
            return false
        }
        if isTooLate { revoked() }
        return follower
    }

    /// The number of followers of all logins.
    package var followerCount: Int { state.withLock { $0.followers.values.reduce(0) { $0 + $1.count } } }

    fileprivate func remove(_ follower: RevocationObserver) {
        state.withLock { state in
            state.followers[follower.login]?[ObjectIdentifier(follower)] = nil
            if state.followers[follower.login]?.isEmpty ?? false { state.followers[follower.login] = nil }
        }
    }
}

/// A registration for the revocation of a login, until `cancel`.
package final class RevocationObserver: Sendable {
    fileprivate let login: Login
    private let logins: LoginRegistry
    fileprivate let revoked: @Sendable () -> Void

    fileprivate init(login: Login, logins: LoginRegistry, revoked: @escaping @Sendable () -> Void) {
        self.login = login
        self.logins = logins
        self.revoked = revoked
    }

    package func cancel() { logins.remove(self) }
}
