// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import CryptoExtras
import Foundation
import RelayProtocol

/// Push credentials as they are stored, for diagnosis.
package struct CredentialState: Sendable {
    package enum Problem: Sendable {
        /// The row cannot be opened with the relay's key, or decoded.
        case unreadable
        /// The signing key is no key of its type in PEM.
        case key
        /// The domain of its identity is not proven.
        case unproven
    }

    package var id: String
    package var identity: String
    /// The push type.
    package var type: String
    /// Milliseconds since 1970.
    package var created: Int64
    /// Why no push is sent with it.
    package var problem: Problem?
}

extension StoreDatabase {
    /// All push credentials, oldest first.
    package func credentialStates(with key: RelayKey) throws -> [CredentialState] {
        let transaction = SQLTransaction(database: self)
        let usable = Set(try transaction.appIdentities().filter(\.isUsable).map(\.id) + [AppIdentity.defaultID])
        return try transaction.credentials().map { row in
            var state = CredentialState(id: row.id, identity: row.identity, type: row.type, created: row.created)
            guard let bytes = key.open(row.sealed, label: "push credential \(row.id)"),
                let credential = try? JSONDecoder().decode(StoredCredential.self, from: Data(bytes)), credential.type == row.type
            else {
                state.problem = .unreadable
                return state
            }
            state.problem = !credential.hasKey ? .key : usable.contains(row.identity) ? nil : .unproven
            return state
        }
    }
}

extension StoredCredential {
    /// Whether its signing key can sign, if it has one. A client secret is any text.
    fileprivate var hasKey: Bool {
        switch self {
        case .apns(_, _, let key, _), .webPush(let key, _): Self.isSigningKey(key.exposed)
        case .fcm(_, _, let key): (try? _RSA.Signing.PrivateKey(pemRepresentation: key.exposed)) != nil
        case .wnsPackage(_, let secret), .wnsAppSDK(_, _, let secret): !secret.exposed.isEmpty
        }
    }
}
