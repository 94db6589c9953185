// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol
import Synchronization

/// A login of a client. All tokens that result from it share the login.
package struct Login: Hashable, Sendable {
    /// The key of the trusted issuer.
    package var issuer: String
    package var session: String

    package init(issuer: String, session: String) {
        self.issuer = issuer
        self.session = session
    }
}

/// The withdrawn logins, and the channels that depend on other logins.
package final class Logins: Sendable {
    private struct State {
        var withdrawn = WithdrawnLogins()
        var followers: [Login: [ObjectIdentifier: LoginFollower]] = [:]
    }

    private let state = Mutex(State())

    package init() {}

    package func isWithdrawn(_ login: Login) -> Bool { state.withLock { $0.withdrawn.contains(login) } }

    /// - Parameter until: When the last of its tokens expires.
    package func withdraw(_ login: Login, until: Milliseconds, now: Milliseconds) {
        let followers = state.withLock { state in
            state.withdrawn.insert(login, until: until, now: now)
            return state.followers.removeValue(forKey: login) ?? [:]
        }
        for follower in followers.values { follower.withdrawn() }
    }

    /// Calls back once when a login is withdrawn; at once if it is already.
    package func follow(_ login: Login, withdrawn: @escaping @Sendable () -> Void) -> LoginFollower {
        let follower = LoginFollower(login: login, logins: self, withdrawn: withdrawn)
        // The same lock as in `withdraw`, so that no withdrawal falls between the check and the registration.
        let isTooLate = state.withLock { state in
            if state.withdrawn.contains(login) { return true }
            state.followers[login, default: [:]][ObjectIdentifier(follower)] = follower
            return false
        }
        if isTooLate { withdrawn() }
        return follower
    }

    /// The number of followers of all logins.
    package var followerCount: Int { state.withLock { $0.followers.values.reduce(0) { $0 + $1.count } } }

    fileprivate func remove(_ follower: LoginFollower) {
        state.withLock { state in
            state.followers[follower.login]?[ObjectIdentifier(follower)] = nil
            if state.followers[follower.login]?.isEmpty ?? false { state.followers[follower.login] = nil }
        }
    }
}

/// A registration for the withdrawal of a login, until `cancel`.
package final class LoginFollower: Sendable {
    fileprivate let login: Login
    private let logins: Logins
    fileprivate let withdrawn: @Sendable () -> Void

    fileprivate init(login: Login, logins: Logins, withdrawn: @escaping @Sendable () -> Void) {
        self.login = login
        self.logins = logins
        self.withdrawn = withdrawn
    }

    package func cancel() { logins.remove(self) }
}
