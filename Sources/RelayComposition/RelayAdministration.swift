// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayIssuer
import RelayLog
import RelayProtocol
import RelayServer

/// Answers the operator's requests to the running relay.
struct RelayAdministration: Sendable {
    let core: RelayCore
    let issuer: Issuer
    let tokens: TrustedIssuers
    let registry: AppRegistry
    /// Called after a change of push credentials.
    let credentialsChanged: @Sendable () async -> Void
    /// The URLs of the other trusted issuers.
    let otherIssuers: @Sendable () -> [String]
    let events: @Sendable (RelayEvent) -> Void
    let logger: Logger

    func answer(_ request: AdminRequest) async -> AdminAnswer {
        let answer: AdminAnswer
        do {
            answer = try await perform(request)
        } catch let error as AdminError {
            answer = .failure(error.description)
        } catch let error as IssuerError {
            answer = .failure(error.description)
        } catch StoreError.left {
            answer = .failure("\(StoreError.left)")
        } catch is AccountNameTaken {
            answer = .failure(IssuerError.nameTaken.description)
        } catch {
            logger.error("an operator's command failed", metadata: ["error": "\(error)"])
            answer = .failure("the relay cannot do it now: its log says why")
        }
        let (command, account) = request.logged
        let failure: String? = if case .failure(let reason) = answer { reason } else { nil }
        events(.administered(command: command, account: account, failure: failure))
        return answer
    }

    private func perform(_ request: AdminRequest) async throws -> AdminAnswer {
        try await adoptUsers()
        switch request {
        case .listEndpoints(let account): return .endpoints(try await endpoints(of: account))
        case .revokeEndpoint(let text, let withInvited):
            guard let id = try? EndpointID(parsing: text) else {
                throw AdminError.noEndpoint
            }
            return .revocation(try await revoke(id, withLetIn: withInvited))
        case .listAccounts: return .accounts(try await core.accounts().map(AdminAccount.init))
        case .addAccount(let name, let password): return try await add(name: name, password: password)
        case .importAccounts(let accounts, let origin): return .imported(try await importAccounts(accounts, origin))
        case .renameAccount(let name, let new): return try await rename(account(name), to: new)
        case .disableAccount(let name): return try await setDisabled(true, account(name))
        case .enableAccount(let name): return try await setDisabled(false, account(name))
        case .removeAccount(let name): return try await remove(account(name))
        case .linkAccount(let name, let issuer, let subject): return try await link(account(name), issuer, subject)
        case .unlinkAccount(let name, let issuer, let subject): return try await unlink(account(name), issuer, subject)
        case .accountQuotas(let name, let change): return try await quotas(account(name), change)
        case .exportAccount(let name): return try await export(account(name))
        case .invite(let name):
            let user = try IssuerUser.choose(name, among: try await issuer.users())
            return .invitation(code: try await issuer.invite(subject: user.subject), subject: user.subject)
        case .setUpLink(let name, let origin, let isReset):
            let user = try IssuerUser.choose(name, among: try await issuer.users())
            return .link(try await issuer.setUpLink(subject: user.subject, origin: origin, isReset: isReset), subject: user.subject)
        case .revokeToken(let token): return .token(try await revoke(token))
        case .listKeys: return try await keys()
        case .removeKey(let id):
            try await issuer.removeSigningKey(id)
            try await tokens.forgetKeys(removedBy: issuer)
            return try await keys()
        case .listResourceServers: return .resourceServers(try await issuer.resourceServers())
        case .addResourceServer(let name): return .secret(try await issuer.addResourceServer(name))
        case .removeResourceServer(let name):
            guard try await issuer.removeResourceServer(name) else { throw IssuerError.unknownResourceServer }
            return .done
        // The service itself answers what concerns its connections.
        case .countForwarding, .madeBackup: return .done
        case .listApps: return .apps(try await registry.list())
        case .addApp(let id, let texts): return try await changeApp { try await registry.add(id, try Self.apps(texts)) }
        case .removeApp(let id, let texts): return try await changeApp { try await registry.remove(id, try Self.apps(texts)) }
        case .verifyApp(let id): return try await changeApp { try await verifyApp(id) }
        case .addCredential(let credential, let id): return try await changeApp { try await registry.add(credential.exposed, to: id) }
        case .removeCredential(let credential, let id):
            return try await changeApp { try await registry.removeCredential(credential, of: id) }
        }
    }

    private func keys() async throws -> AdminAnswer {
        let keys = try await issuer.signingKeys()
        return .keys(keys.map { AdminKey(id: $0.id, phase: $0.phase.rawValue, activates: $0.activates.count) })
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
    private func account(_ text: String) async throws -> AccountRow { try await core.accounts().meant(by: text) }

    private func row(_ id: AccountID) async throws -> AdminAnswer {
        .account(AdminAccount(try await account(id.rawValue)))
    }

    /// The name as it is stored. No other account of the relay has it.
    private func free(_ name: String, except own: AccountID? = nil) async throws -> String {
        let name = try Issuer.checked(name)
        let others = try await core.accounts().filter { $0.id != own }
        guard !others.contains(where: { $0.name.flatMap(AccountName.init)?.key == name.key }) else { throw IssuerError.nameTaken }
        return name.text
    }

    private func add(name: String, password: Secret<String>?) async throws -> AdminAnswer {
        if let password { try Issuer.check(password: password, name: name) }
        let (id, subject) = try await addAccount(named: name, by: .operator)
        if let password { try await issuer.setPassword(subject: subject, to: password) }
        return try await row(id)
    }

    /// Adds an account, and its user at the embedded issuer.
    func addAccount(named name: String, by actor: RelayEvent.Actor) async throws -> (id: AccountID, subject: String) {
        let name = try await free(name)
        let subject = try await issuer.createUser(name: name)
        let id = try await core.addAccount(of: Composition.identity(of: subject), name: name)
        events(.accountAdded(account: name, by: actor))
        return (id, subject)
    }

    /// Adds the accounts that there are not yet. Names and quotas are checked before the first one is added.
    private func importAccounts(_ rows: [AdminImport], _ origin: String) async throws -> [AdminImported] {
        let rows = try rows.map { row in
            try check(row.quotas, for: AccountQuotas())
            return (name: try Issuer.checked(row.name), quotas: row.quotas)
        }
        var known: [String: AccountRow] = [:]
        for account in try await core.accounts() {
            if let key = account.name.flatMap(AccountName.init)?.key { known[key] = account }
        }
        var imported: [AdminImported] = []
        for (name, quotas) in rows {
            if let account = known[name.key] {
                // Also those of an account that an interrupted import has made.
                try await change(quotas, of: account.id)
                imported.append(AdminImported(name: account.name ?? name.text, id: account.id.rawValue, link: nil))
                continue
            }
            let subject = try await issuer.createUser(name: name.text)
            let id = try await core.addAccount(of: Composition.identity(of: subject), name: name.text)
            events(.accountAdded(account: name.text, by: .operator))
            try await change(quotas, of: id)
            let link = try await issuer.setUpLink(subject: subject, origin: origin)
            imported.append(AdminImported(name: name.text, id: id.rawValue, link: link))
        }
        return imported
    }

    private func rename(_ account: AccountRow, to name: String) async throws -> AdminAnswer {
        let name = try await free(name, except: account.id)
        for subject in account.embeddedSubjects { try await issuer.rename(subject, to: name) }
        try await core.rename(account.id, to: name)
        return try await row(account.id)
    }

    private func setDisabled(_ isDisabled: Bool, _ account: AccountRow) async throws -> AdminAnswer {
        try await core.setDisabled(isDisabled, of: account.id)
        return try await row(account.id)
    }

    private func remove(_ account: AccountRow) async throws -> AdminAnswer {
        // The account first: without it, no token of it counts.
        try await core.remove(account.id)
        for subject in account.embeddedSubjects { try await issuer.remove(subject) }
        return .account(AdminAccount(account))
    }

    private func link(_ account: AccountRow, _ issuer: String, _ subject: String) async throws -> AdminAnswer {
        guard otherIssuers().contains(issuer) else {
            throw AdminError("this relay trusts no issuer of this URL: see the file of --issuers-file")
        }
        guard TokenRules.isSubject(subject) else { throw AdminError("a subject has 1 to 255 visible ASCII characters") }
        guard try await core.link(Identity(issuer: issuer, subject: subject), to: account.id) else {
            throw AdminError("this identity has an account of its own: see `relayd account list`")
        }
        return try await row(account.id)
    }

    private func unlink(_ account: AccountRow, _ issuer: String, _ subject: String) async throws -> AdminAnswer {
        switch try await core.unlink(Identity(issuer: issuer, subject: subject), from: account.id) {
        case .removed: break
        case .unknown: throw AdminError("the account has no such identity: see `relayd account list`")
        case .first:
            throw AdminError("the account began with this identity and keeps it: disable or remove the account with `relayd account`")
        }
        return try await row(account.id)
    }

    private func export(_ account: AccountRow) async throws -> AdminAnswer {
        let contents = try await core.contents(of: account.id)
        let connected = Set(try await core.endpoints(of: account.id).filter(\.isConnected).map(\.row.id))
        return .export(AdminExport(AdminAccount(account), contents) { connected.contains($0) })
    }

    // MARK: Tokens and endpoints

    private func revoke(_ token: Secret<String>) async throws -> AdminToken {
        let verified: VerifiedToken
        do throws(TokenError) {
            verified = try await tokens.verifier.verify(token, key: nil)
        } catch {
            throw AdminError("the relay does not accept this token: \(error.message)")
        }
        let single = Login(token: token.exposed)
        let end = Milliseconds(clamping: verified.expires.count + TokenRules.leeway)
        try await core.storeRevokedToken(single, until: end)
        tokens.verifier.revoke(single, until: end)
        var isLoginRevoked = false
        if verified.identity.issuer == Composition.issuerKey, let session = verified.session {
            try await issuer.endLogin(session: session)
            isLoginRevoked = true
        }
        return AdminToken(
            issuer: verified.identity.issuer,
            subject: verified.identity.subject,
            expires: verified.expires.count,
            isLoginRevoked: isLoginRevoked
        )
    }

    private func revoke(_ endpoint: EndpointID, withLetIn: Bool) async throws -> AdminRevocation {
        guard let revocation = try await core.revoke(endpoint, withLetIn: withLetIn) else {
            throw AdminError.noEndpoint
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
            letIn: revocation.letIn.map { shown($0.row, isConnected: $0.isConnected) },
            issuers: issuers.subtracting([Composition.issuerKey]).sorted()
        )
    }

    private func endpoints(of account: String?) async throws -> [AdminEndpoint] {
        let rows = if let account { [try await self.account(account)] } else { try await core.accounts() }
        var endpoints: [AdminEndpoint] = []
        for account in rows {
            endpoints += try await core.endpoints(of: account.id).map { endpoint in
                AdminEndpoint(endpoint.row, account: account.name ?? "", isConnected: endpoint.isConnected)
            }
        }
        return endpoints
    }
}

extension IssuerUser {
    /// The user of an account's name or id; without it, the only user.
    static func choose(_ account: String?, among users: [IssuerUser]) throws(AdminError) -> IssuerUser {
        guard let account else {
            guard let only = users.first, users.count == 1 else {
                throw AdminError(
                    users.isEmpty
                        ? "there is no account yet: make one with `relayd account add NAME`"
                        : "there are \(users.count) accounts: give a name or id that `relayd account list` prints"
                )
            }
            return only
        }
        return try users.meant(by: account)
    }
}
