// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import Synchronization

/// Ends the logins of endpoints that were revoked, so that a revoked device comes back by none of them.
package protocol LoginEnding: Sendable {
    /// Ends what is bound to a key, and one login besides. Returns once that is durable; may be called again.
    /// - Parameters:
    ///   - keyThumbprint: the JWK thumbprint of the endpoint's identity key.
    ///   - login: the login of the token that the endpoint last said hello with.
    func endLogins(keyThumbprint: String, login: Login?) async throws
}

/// The logins of revoked endpoints. The issuer has a store of its own, so the revocation's row says what is still to be ended: after a crash
/// between the two commits it is ended at the next start.
extension RelayCore {
    /// Whether logins are being ended.
    enum LoginsPass: Hashable, Sendable {
        case idle
        /// - Parameter again: More were revoked meanwhile.
        case running(again: Bool)
    }

    private static let loginsInPass = 256
    private static let loginsInterval: Int64 = 60_000

    /// Ends all that is to be ended. What fails is tried again within a minute.
    func endLogins() {
        guard let logins else { return }
        let begins = node.withLock { node in
            node.nextLoginsPass = now().count + Self.loginsInterval
            guard node.loginsPass == .idle else {
                node.loginsPass = .running(again: true)
                return false
            }
            node.loginsPass = .running(again: false)
            return true
        }
        guard begins else { return }
        Task {
            let rows = (try? await store.transact { try $0.revocationsWithLogins(limit: Self.loginsInPass) }) ?? []
            // One that fails keeps no other one waiting.
            for row in rows {
                do {
                    try await logins.endLogins(keyThumbprint: row.keyThumbprint, login: row.login)
                    try await store.transact(for: row.account) { try $0.loginsEnded(of: row.endpoint) }
                    logger.info("ended the logins of a revoked endpoint", metadata: ["endpoint": "\(row.endpoint.label)"])
                } catch {
                    logger.error("the logins of a revoked endpoint could not be ended; it is tried again", metadata: ["error": "\(error)"])
                }
            }
            let again = node.withLock { node in
                defer { node.loginsPass = .idle }
                return node.loginsPass == .running(again: true)
            }
            if again { endLogins() }
        }
    }

    /// Tries again what failed.
    func endLoginsIfDue() {
        let isDue = node.withLock { !$0.isStopping && now().count >= $0.nextLoginsPass }
        if isDue { endLogins() }
    }
}
