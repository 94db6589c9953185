// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// App identities are read seldom, so the cache does not keep them.
extension CachingTransaction {
    func appIdentities() throws -> [AppIdentity] { try backend.appIdentities() }
    func appIdentity(_ id: String) throws -> AppIdentity? { try backend.appIdentity(id) }
    func put(_ identity: AppIdentity) throws { try backend.put(identity) }
    func removeAppIdentity(_ id: String) throws { try backend.removeAppIdentity(id) }
    func credentials() throws -> [CredentialRow] { try backend.credentials() }
    func add(_ credential: CredentialRow) throws { try backend.add(credential) }
    func removeCredential(_ id: String) throws { try backend.removeCredential(id) }
}
