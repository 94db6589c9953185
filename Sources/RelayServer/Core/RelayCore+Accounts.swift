// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayLog
package import RelayProtocol

/// What the operator asks about accounts.
extension RelayCore {
    /// The oldest first.
    package func accounts() async throws -> [AccountRow] { try await store.transactGlobally { try $0.accounts() } }

    /// Makes the account of an identity, or finds it.
    /// - Parameter name: For an account that has none yet; passed over if another account has it.
    @discardableResult
    package func addAccount(of identity: Identity, name: String) async throws -> AccountID {
        var account = AccountID(of: identity)
        while case .account(let other) = try await perform(.add(identity, name: name), on: account), other != account { account = other }
        return account
    }

    /// Throws `AccountNameTaken` if another account has the name.
    package func rename(_ account: AccountID, to name: String) async throws {
        if try await perform(.rename(name), on: account) == .nameTaken { throw AccountNameTaken() }
    }

    /// Gives an account one more identity.
    /// - Returns: Whether that was possible: an identity is of one account.
    package func link(_ identity: Identity, to account: AccountID) async throws -> Bool {
        try await perform(.link(identity), on: account) == .done
    }

    /// Takes an identity from an account, and ends the channels of its tokens.
    package func unlink(_ identity: Identity, from account: AccountID) async throws -> IdentityRemoval {
        guard case .unlinked(let removal) = try await perform(.unlink(identity), on: account) else { return .unknown }
        return removal
    }

    package func setDisabled(_ isDisabled: Bool, of account: AccountID) async throws {
        _ = try await perform(.setDisabled(isDisabled), on: account)
    }

    /// Removes an account with all that is of it, and ends its channels.
    package func remove(_ account: AccountID, by actor: RelayEvent.Actor = .operator) async throws {
        _ = try await perform(.remove(by: actor), on: account)
    }

    /// All that is stored of an account, but for the sealed commands: those are counted.
    package func contents(of account: AccountID) async throws -> AccountContents {
        try await store.read { store in
            try AccountContents(
                endpoints: store.endpoints(of: account).map { row in
                    .init(row: row, registrations: try store.registrations(of: row.id), vouchers: try store.vouchers(for: row.id))
                },
                revocations: store.revocations(of: account),
                commands: store.endpoints(of: account).reduce(0) { $0 + (try store.mailbox(of: $1.id, account: account).count) },
                bytes: store.storedBytes(of: account)
            )
        }
    }

    /// Tells the watchers of accounts which apps these endpoints have now.
    package func tellRegistrations(of endpoints: [AccountID: Set<EndpointID>]) {
        for (account, endpoints) in endpoints { change(account) { $0.transact(.readRegistrations(endpoints)) } }
    }

    /// Remembers that a token was revoked.
    package func storeRevokedToken(_ token: Login, until end: Milliseconds) async throws {
        let time = now().count
        try await store.transactGlobally { try $0.addRevokedToken(token.session, ends: end.count, now: time) }
    }
}

/// What is stored of an account's endpoints.
package struct AccountContents: Sendable {
    package struct Endpoint: Sendable {
        package var row: EndpointRow
        package var registrations: [RegistrationRow]
        package var vouchers: [[UInt8]]
    }

    package var endpoints: [Endpoint]
    package var revocations: [RevocationRow]
    /// How many commands wait for the endpoints.
    package var commands: Int
    package var bytes: Int
}
