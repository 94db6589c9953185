// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayIssuer
import RelayLog
import RelayProtocol
import RelayServer
import Synchronization

/// Answers the issuer's questions to the relay. The core is created after the issuer.
final class RelayAccounts: AccountHolder {
    struct NotReady: Error {}

    private let core = Mutex<RelayCore?>(nil)

    func begin(_ core: RelayCore) { self.core.withLock { $0 = core } }

    private func account(of subject: String) async throws -> (RelayCore, AccountID?) {
        guard let core = core.withLock({ $0 }) else { throw NotReady() }
        return (core, try await core.account(of: Composition.identity(of: subject)))
    }

    func mayInvite(key: String, subject: String) async -> Bool {
        guard let core = core.withLock({ $0 }) else { return false }
        // If the lookup fails, the endpoint may not invite.
        return (try? await core.mayInvite(keyThumbprint: key, into: Composition.identity(of: subject))) ?? false
    }

    func endpoints(of subject: String) async throws -> [AccountEndpoint] {
        let (core, account) = try await account(of: subject)
        guard let account else { return [] }
        let endpoints = try await core.endpoints(of: account).map { endpoint in
            let record = try? Unverified<EndpointRecord>(decoding: endpoint.row.record).payload
            return AccountEndpoint(
                id: endpoint.row.id,
                name: record?.name ?? "",
                kind: record?.kind ?? "",
                platform: record?.platform ?? "",
                isConnected: endpoint.isConnected,
                joining: endpoint.row.joining,
                keyThumbprint: endpoint.row.keyThumbprint
            )
        }
        return endpoints.sorted { ($0.joining.time, $0.id) < ($1.joining.time, $1.id) }
    }

    func revoke(_ endpoint: EndpointID, of subject: String) async throws -> Bool {
        let (core, account) = try await account(of: subject)
        guard let account, try await core.endpoints(of: account).contains(where: { $0.row.id == endpoint }) else { return false }
        return try await core.revoke(endpoint, by: .owner) != nil
    }

    func identities(of subject: String) async throws -> [AccountLink] {
        let (core, account) = try await account(of: subject)
        guard let account, let row = try await core.accounts().first(where: { $0.id == account }) else { return [] }
        return row.identities.filter { $0.identity.issuer != Composition.issuerKey }.map { identity in
            AccountLink(
                issuer: identity.identity.issuer,
                subject: identity.identity.subject,
                linker: identity.linker,
                added: Milliseconds(clamping: identity.added),
                isRemovable: AccountID(of: identity.identity) != account
            )
        }
    }

    func unlink(issuer: String, subject other: String, of subject: String) async throws -> Bool {
        // The users of the relay's own issuer are not links.
        guard issuer != Composition.issuerKey else { return false }
        let (core, account) = try await account(of: subject)
        guard let account else { return false }
        return try await core.unlink(Identity(issuer: issuer, subject: other), from: account) == .removed
    }

    func remove(accountOf subject: String) async throws -> [String] {
        let (core, account) = try await account(of: subject)
        guard let account, let row = try await core.accounts().first(where: { $0.id == account }) else { return [subject] }
        try await core.remove(account, by: .owner)
        return row.embeddedSubjects
    }
}

extension AccountRow {
    /// Its users at the embedded issuer.
    var embeddedSubjects: [String] { identities.map(\.identity).filter { $0.issuer == Composition.issuerKey }.map(\.subject) }
}
