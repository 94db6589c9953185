// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import Synchronization

/// Ends the logins of revoked endpoints, so that a revoked device cannot use them again.
package protocol LoginEnding: Sendable {
    /// Ends the logins that are bound to a key, and one more login. Returns once that is durable. Repeated calls are allowed.
    /// - Parameters:
    ///   - keyThumbprint: the JWK thumbprint of the endpoint's identity key.
    ///   - login: the login of the token in the endpoint's last hello.
    func endLogins(keyThumbprint: String, login: Login?) async throws
}

/// The logins of revoked endpoints. The issuer has its own store, so the revocation's row records that logins are still to be ended.
/// After a crash between the two commits they are ended at the next start.
extension RelayCore {
    /// The state of the pass that ends logins.
    enum LoginsPass: Hashable, Sendable {
        case idle
        /// - Parameter again: more endpoints were revoked meanwhile.
        case running(again: Bool)
    }

    private static let loginsInPass = 256
    private static let loginsInterval: Int64 = 60_000

    /// Ends all pending logins. Failures are retried within a minute.
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
        tasks.start { [self] in
            let rows = (try? await store.transactGlobally { try $0.revocationsWithLogins(limit: Self.loginsInPass) }) ?? []
            // A failure does not stop the loop.
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

    /// Retries failures.
    func endLoginsIfDue() {
        let isDue = node.withLock { !$0.isStopping && now().count >= $0.nextLoginsPass }
        if isDue { endLogins() }
    }
}
