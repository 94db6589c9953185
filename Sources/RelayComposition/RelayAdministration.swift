// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayIssuer
import RelayProtocol
import RelayServer

/// Answers the operator's requests to the running relay.
struct RelayAdministration: Sendable {
    let core: RelayCore
    let issuer: Issuer
    let tokens: TokenVerifier
    let registry: AppRegistry
    /// Called after a change of push credentials.
    let credentialsChanged: @Sendable () async -> Void
    /// The URLs of the other trusted issuers.
    let otherIssuers: [String]
    let logger: Logger

    func answer(_ request: AdminRequest) async -> AdminAnswer {
        do {
            try await adoptUsers()
            switch request.command {
            case .listEndpoints: return AdminAnswer(endpoints: try await endpoints(of: request.account))
            case .revokeEndpoint:
                guard let id = request.endpoint.flatMap({ try? EndpointID(parsing: $0) }) else {
                    return AdminAnswer(error: "an endpoint's id has 52 characters, as `relayd endpoint list` prints it")
                }
                return AdminAnswer(revocation: try await revoke(id, withLetIn: request.withInvited ?? false))
            case .listAccounts: return AdminAnswer(accounts: try await core.accounts().map(AdminAccount.init))
            case .addAccount: return try await add(name: request.name ?? "")
            case .renameAccount: return try await rename(account(request.account), to: request.name ?? "")
            case .disableAccount: return try await setDisabled(true, account(request.account))
            case .enableAccount: return try await setDisabled(false, account(request.account))
            case .removeAccount: return try await remove(account(request.account))
            case .linkAccount: return try await link(account(request.account), request.issuer ?? "", request.subject ?? "")
            case .unlinkAccount: return try await unlink(account(request.account), request.issuer ?? "", request.subject ?? "")
            case .exportAccount: return try await export(account(request.account))
            case .revokeToken: return AdminAnswer(token: try await revoke(request.token ?? Secret("")))
            case .listApps, .addApp, .removeApp, .verifyApp, .addCredential, .removeCredential: return try await apps(request)
            }
        } catch let error as AdminError {
            return AdminAnswer(error: error.description)
        } catch let error as IssuerError {
            return AdminAnswer(error: error.description)
        } catch is AccountNameTaken {
            return AdminAnswer(error: IssuerError.nameTaken.description)
        } catch {
            logger.error("an operator's command failed", metadata: ["error": "\(error)"])
            return AdminAnswer(error: "the relay cannot do it now: its log says why")
        }
    }

    // MARK: Accounts

    /// Users of the embedded issuer have accounts before their first device does.
    private func adoptUsers() async throws {
        let known = Set(try await core.accounts().filter { $0.name != nil }.flatMap(\.identities).map(\.identity))
        for user in try await issuer.users() {
            let identity = Composition.identity(of: user.subject)
            if !known.contains(identity) { try await core.addAccount(of: identity, name: user.name) }
        }
    }

    /// The account of a name or an id.
    private func account(_ text: String?) async throws -> AccountRow {
        let rows = try await core.accounts()
        // An id takes precedence over the name of another account.
        let key = text.flatMap(AccountName.init)?.key
        guard
            let row = rows.first(where: { $0.id.rawValue == text })
                ?? rows.first(where: { key != nil && $0.name.flatMap(AccountName.init)?.key == key })
        else {
            throw AdminError("there is no such account: see `relayd account list`")
        }
        return row
    }

    private func row(_ id: AccountID) async throws -> AdminAnswer {
        AdminAnswer(accounts: [AdminAccount(try await account(id.rawValue))])
    }

    /// The name as it is stored. No other account of the relay has it.
    private func free(_ name: String, except own: AccountID? = nil) async throws -> String {
        let name = try Issuer.checked(name)
        let others = try await core.accounts().filter { $0.id != own }
        guard !others.contains(where: { $0.name.flatMap(AccountName.init)?.key == name.key }) else { throw IssuerError.nameTaken }
        return name.text
    }

    private func add(name: String) async throws -> AdminAnswer {
        let name = try await free(name)
        let subject = try await issuer.createUser(name: name)
        let id = try await core.addAccount(of: Composition.identity(of: subject), name: name)
        logger.notice("the operator added an account", metadata: ["account": "\(id.rawValue.prefix(8))"])
        return try await row(id)
    }

    private func rename(_ account: AccountRow, to name: String) async throws -> AdminAnswer {
        let name = try await free(name, except: account.id)
        for subject in account.embeddedSubjects { try await issuer.rename(subject, to: name) }
        try await core.rename(account.id, to: name)
        return try await row(account.id)
    }

    private func setDisabled(_ isDisabled: Bool, _ account: AccountRow) async throws -> AdminAnswer {
        try await core.setDisabled(isDisabled, of: account.id)
        let word = isDisabled ? "disabled" : "enabled"
        logger.notice("the operator \(word) an account", metadata: ["account": "\(account.id.rawValue.prefix(8))"])
        return try await row(account.id)
    }

    private func remove(_ account: AccountRow) async throws -> AdminAnswer {
        // The account first: without it, no token of it counts.
        try await core.remove(account.id)
        for subject in account.embeddedSubjects { try await issuer.remove(subject) }
        logger.notice("the operator removed an account", metadata: ["account": "\(account.id.rawValue.prefix(8))"])
        return AdminAnswer(accounts: [AdminAccount(account)])
    }

    private func link(_ account: AccountRow, _ issuer: String, _ subject: String) async throws -> AdminAnswer {
        guard otherIssuers.contains(issuer) else {
            throw AdminError("this relay trusts no issuer of this URL: see the file of --issuers-file")
        }
        guard TokenRules.isSubject(subject) else { throw AdminError("a subject has 1 to 255 visible ASCII characters") }
        guard try await core.link(Identity(issuer: issuer, subject: subject), to: account.id) else {
            throw AdminError("this identity has an account of its own: see `relayd account list`")
        }
        logger.notice("the operator linked an identity", metadata: ["account": "\(account.id.rawValue.prefix(8))"])
        return try await row(account.id)
    }

    private func unlink(_ account: AccountRow, _ issuer: String, _ subject: String) async throws -> AdminAnswer {
        switch try await core.unlink(Identity(issuer: issuer, subject: subject), from: account.id) {
        case .removed: break
        case .unknown: throw AdminError("the account has no such identity: see `relayd account list`")
        case .first:
            throw AdminError("the account began with this identity and keeps it: disable or remove the account with `relayd account`")
        }
        logger.notice("the operator removed an identity", metadata: ["account": "\(account.id.rawValue.prefix(8))"])
        return try await row(account.id)
    }

    private func export(_ account: AccountRow) async throws -> AdminAnswer {
        let contents = try await core.contents(of: account.id)
        let connected = Set(try await core.endpoints(of: account.id).filter(\.isConnected).map(\.row.id))
        return AdminAnswer(export: AdminExport(AdminAccount(account), contents) { connected.contains($0) })
    }

    // MARK: Tokens and endpoints

    private func revoke(_ token: Secret<String>) async throws -> AdminToken {
        let verified: VerifiedToken
        do throws(TokenError) {
            verified = try await tokens.verify(token, key: nil)
        } catch {
            throw AdminError("the relay does not accept this token: \(error.message)")
        }
        let single = Login(token: token.exposed)
        let end = Milliseconds(clamping: verified.expires.count + TokenRules.leeway)
        try await core.storeRevokedToken(single, until: end)
        tokens.revoke(single, until: end)
        var isLoginRevoked = false
        if verified.identity.issuer == Composition.issuerKey, let session = verified.session {
            try await issuer.endLogin(session: session)
            isLoginRevoked = true
        }
        logger.notice("the operator revoked a token", metadata: ["issuer": "\(verified.identity.issuer)"])
        return AdminToken(
            issuer: verified.identity.issuer,
            subject: verified.identity.subject,
            expires: verified.expires.count,
            isLoginRevoked: isLoginRevoked
        )
    }

    private func revoke(_ endpoint: EndpointID, withLetIn: Bool) async throws -> AdminRevocation {
        guard let revocation = try await core.revoke(endpoint, withLetIn: withLetIn) else {
            throw AdminError("there is no such endpoint: see `relayd endpoint list`")
        }
        for row in revocation.revoked {
            logger.notice("the operator revoked an endpoint", metadata: ["endpoint": "\(row.id.label)"])
        }
        let accounts = try await core.accounts()
        let names = Dictionary(uniqueKeysWithValues: accounts.map { ($0.id, $0.name ?? "") })
        let revoked = Set(revocation.revoked.map(\.account))
        let issuers = Set(accounts.filter { revoked.contains($0.id) }.flatMap(\.identities).map(\.identity.issuer))
        func shown(_ row: EndpointRow, isConnected: Bool) -> AdminEndpoint {
            AdminEndpoint(row, account: names[row.account] ?? "", isConnected: isConnected)
        }
        return AdminRevocation(
            revoked: revocation.revoked.map { shown($0, isConnected: false) },
            letIn: revocation.letIn.map(shown),
            issuers: issuers.subtracting([Composition.issuerKey]).sorted()
        )
    }

    private func endpoints(of account: String?) async throws -> [AdminEndpoint] {
        let rows = if let account { [try await self.account(account)] } else { try await core.accounts() }
        var endpoints: [AdminEndpoint] = []
        for account in rows {
            endpoints += try await core.endpoints(of: account.id).map { row, isConnected in
                AdminEndpoint(row, account: account.name ?? "", isConnected: isConnected)
            }
        }
        return endpoints
    }
}
