// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol
import Synchronization

/// One sign-in of one client, which all the tokens it leads to have in common.
package struct Login: Hashable, Sendable {
    /// The key of the trusted issuer.
    package var issuer: String
    package var session: String

    package init(issuer: String, session: String) {
        self.issuer = issuer
        self.session = session
    }
}

/// The logins that were withdrawn, and the channels that live by others.
package final class Logins: Sendable {
    private struct State {
        var withdrawn = WithdrawnLogins()
        var followers: [Login: [ObjectIdentifier: LoginFollower]] = [:]
    }

    private let state = Mutex(State())

    package init() {}

    package func isWithdrawn(_ login: Login) -> Bool { state.withLock { $0.withdrawn.contains(login) } }

    /// - Parameter until: when the last of its tokens ends.
    package func withdraw(_ login: Login, until: Milliseconds, now: Milliseconds) {
        let followers = state.withLock { state in
            state.withdrawn.insert(login, until: until, now: now)
            return state.followers.removeValue(forKey: login) ?? [:]
        }
        for follower in followers.values { follower.withdrawn() }
    }

    /// Calls back once when a login is withdrawn; at once if it was before.
    package func follow(_ login: Login, withdrawn: @escaping @Sendable () -> Void) -> LoginFollower {
        let follower = LoginFollower(login: login, logins: self, withdrawn: withdrawn)
        // Under one lock with the withdrawal: none falls between the look and the entry.
        let isTooLate = state.withLock { state in
            if state.withdrawn.contains(login) { return true }
            state.followers[login, default: [:]][ObjectIdentifier(follower)] = follower
            return false
        }
        if isTooLate { withdrawn() }
        return follower
    }

    /// How many follow a login.
    package var followerCount: Int { state.withLock { $0.followers.values.reduce(0) { $0 + $1.count } } }

    fileprivate func remove(_ follower: LoginFollower) {
        state.withLock { state in
            state.followers[follower.login]?[ObjectIdentifier(follower)] = nil
            if state.followers[follower.login]?.isEmpty ?? false { state.followers[follower.login] = nil }
        }
    }
}

/// Somebody who wants to hear of a login's withdrawal, until `cancel`.
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
