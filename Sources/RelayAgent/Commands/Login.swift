// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
package import Foundation
import RelayProtocol

/// Signs this device in to an account of a relay: with a browser, with a code for another device, or with name and password at the terminal.
package struct Login: Sendable {
    /// How long a user gets: a little more than the issuer of a relay gives.
    private static let patience = Duration.seconds(11 * 60)

    var relay: String?
    var issuer: String?
    var clientID: String?
    var scopes: [String]
    var method: UserSignIn.Method?
    var password: PasswordSignIn?
    var redirectPort: UInt16?
    var name: String?
    var allowsPlainHTTP: Bool
    var caFile: String?
    var isConfirmed: Bool

    /// - Parameters:
    ///   - relay: The relay's URL, perhaps with its id; see `PinnedRelay`. `nil` for that of the account, whose login has ended.
    ///   - issuer: The issuer's URL; `nil` for the relay's own, or else the first that it names.
    ///   - clientID: The client id at the issuer; `nil` for the one of this program, or one that it registers.
    ///   - scopes: The scopes of the issuer's API, instead of the relay's.
    ///   - method: How to sign in by a page. With neither this nor `password`, a relay that only its key authenticates is signed in to by the
    ///     password, at a terminal. Else it is a browser if there is a display and a terminal, else a code.
    ///   - password: Signs in by name and password at this terminal, or by standard input.
    ///   - redirectPort: The port that a browser comes back to; `nil` for any that is free.
    ///   - name: The name that other devices show; `nil` for the host name.
    ///   - allowsPlainHTTP: Whether to accept plain HTTP to another machine.
    ///   - caFile: A PEM file of the authorities that may sign the relay's and the issuer's certificate.
    ///   - isConfirmed: Whether to join without a question. By default the person at the terminal confirms the account, except after a sign-in
    ///     with name and password, which names it.
    package init(
        relay: String?,
        issuer: String? = nil,
        clientID: String? = nil,
        scopes: [String] = [],
        method: UserSignIn.Method? = nil,
        password: PasswordSignIn? = nil,
        redirectPort: UInt16? = nil,
        name: String? = nil,
        allowsPlainHTTP: Bool = false,
        caFile: String? = nil,
        isConfirmed: Bool = false
    ) {
        self.relay = relay
        self.issuer = issuer
        self.clientID = clientID
        self.scopes = scopes
        self.method = method
        self.password = password
        self.redirectPort = redirectPort
        self.name = name
        self.allowsPlainHTTP = allowsPlainHTTP
        self.caFile = caFile.map { URL(filePath: $0).standardizedFileURL.path }
        self.isConfirmed = isConfirmed
    }

    package struct Event: AgentResult {
        package enum Kind: String, Encodable, Sendable {
            /// The user has to enter a code on a page.
            case code
            /// The user has to open a page on this machine.
            case page
            case signedIn
        }

        package var event: Kind
        package var profile: String
        package var url: String?
        package var userCode: String?
        package var urlWithCode: String?
        package var expires: Date?
        package var relay: String?
        package var relayID: String?
        package var issuer: String?
        /// The account's name at the relay, if the relay has stated one.
        package var accountName: String?
        package var name: String?
        package var device: String?
        package var endpoint: String?
        package var connected: Bool?

        package func lines(_ style: Style) -> [String] {
            switch event {
            case .code:
                let direct = urlWithCode.map { ["or open  \($0)"] } ?? []
                return ["On any device, open  \(url ?? "")", "and enter the code   \(style.show(userCode ?? "", .strong))"] + direct
            case .page: return ["Sign in in your browser. If none opens, open this address on this machine:", url ?? ""]
            case .signedIn:
                let more = profile == HomeAccounts.first ? "" : ", profile \(profile)"
                return [
                    "signed in to \(AccountText.place(accountName, at: relay ?? "")) as \(style.show(name ?? "", .strong)) (device \((device ?? "").prefix(8))\(more))"
                ]
            }
        }
    }

    package func run(_ context: AgentContext) async throws -> Event {
        let url = try issuer.map(UserSignIn.url)
        let user = UserSignIn(issuer: url, clientID: clientID, scopes: scopes, method: method, redirectPort: redirectPort)
        if let caFile, (try? TrustRoots.certificates(in: URL(filePath: caFile))) == nil {
            throw AgentError("caFileUnreadable", "'\(caFile)' cannot be read, or holds no certificate in PEM form", .usage)
        }
        return try await context.home.changingAccount { try await begin(user, context) }
    }

    private func begin(_ user: UserSignIn, _ context: AgentContext) async throws -> Event {
        let stored = try context.home.storedMembership()
        let isUnfinished = stored?.isUnconfirmed ?? false
        let isNew = !(stored?.hasRelay ?? false) || isUnfinished
        var (membership, isPinned) = try await membership(isUnfinished && relay != nil ? nil : stored)
        if let stored, isUnfinished { try await context.forgetUnfinished(stored) }
        if !isNew { try await checkLoginIsOver(membership, context) }
        let password = try await passwordSignIn(membership, isPinned: isPinned, context)
        if password == nil, issuer == nil, await hasOwnCertificate(membership) {
            context.console.note(
                "No browser accepts the certificate of this relay, which is one of its own key; docs/https.md gives it one for browsers. To sign in with name and password here, run: \(membership.loginCommand("--password", as: relay))"
            )
        }
        let asks = password == nil && !isConfirmed
        if asks, isNew, !context.console.canAsk { throw Self.cannotAsk() }
        let provider = if let password { try await password.provider(membership, as: relay, context) } else { user.provider(context) }
        let question = asks ? AccountQuestion(membership, context) : nil
        membership.isUnconfirmed = isNew && asks ? true : nil
        // Stored before the user signs in, so that a crash leaves no account that no command can find.
        if isNew { try context.home.store(membership) }
        return try await signedIn(membership, provider, isNew: isNew, asking: question, context)
    }

    private func signedIn(
        _ membership: Membership,
        _ provider: any AccessTokenProvider,
        isNew: Bool,
        asking question: AccountQuestion?,
        _ context: AgentContext
    ) async throws -> Event {
        let interruption = CancellationSignal()
        do {
            return try await context.withPlatform(membership, accessTokens: provider, asking: question?.isConfirmed) { local in
                // Ctrl-C while the user signs in must leave nothing behind.
                try await interruption.cancelling { try await signIn(local, at: membership.relay) }
                var membership = membership
                membership.isUnconfirmed = nil
                try context.home.store(membership)
                return try await event(local, membership, context)
            }
        } catch {
            if isNew { try? context.home.removeMembership() }
            guard interruption.isThere else { throw error }
            throw interruption.failure()
        }
    }

    private func signIn(_ local: LocalDevice, at relay: String) async throws {
        if local.isJoined { return try await signInAgain(local, at: relay) }
        try await local.platform.accounts.add(local.account)
        try? await local.waitForDirectory()
    }

    private func signInAgain(_ local: LocalDevice, at relay: String) async throws {
        do {
            try await local.waitForPerson(Self.patience)
        } catch let problem as ConnectionError where problem.code == .accountUnknown {
            await local.platform.accounts.endLogin(of: local.account)
            let own = AccountText.place(local.accountName.map(DisplayText.quoted), at: relay)
            throw AgentError(
                "accountUnknown",
                "the relay does not accept this sign-in for this device, which is in \(own). It was ended, and is not kept. Sign in again as the owner of that account, or run `relay leave` first",
                .notSignedIn
            )
        }
    }

    /// Refused before a page is opened: no person could say whose account it is.
    private static func cannotAsk() -> AgentError {
        let command = (["relay"] + CommandLine.arguments.dropFirst() + ["--yes"]).map(ShellText.word).joined(separator: " ")
        return AgentError(
            "yesRequired",
            "the person who finishes the sign-in decides whose account this device joins, and no person at a terminal can be asked about it. To join whichever account it is, run: \(command)",
            .usage
        )
    }

    /// Whether the password is asked for here; `nil` if the user signs in by a page.
    /// - Parameter isPinned: Whether the address names the relay's id; `nil` if this device has known the relay before.
    private func passwordSignIn(_ membership: Membership, isPinned: Bool?, _ context: AgentContext) async throws -> PasswordSignIn? {
        if let password { return password }
        guard method == nil, issuer == nil, clientID == nil, redirectPort == nil, context.console.canAsk else { return nil }
        // Browsers do not take the certificate of a relay's own key.
        if let isPinned { return isPinned ? PasswordSignIn() : nil }
        return await hasOwnCertificate(membership) ? PasswordSignIn() : nil
    }

    /// Whether only its own key authenticates the relay.
    private func hasOwnCertificate(_ membership: Membership) async -> Bool {
        guard let url = URL(exactly: membership.relay) else { return false }
        do throws(AccountError) {
            _ = try await RelayID(ofRelayAt: url, allowsPlainHTTP: membership.allowsPlainHTTP, authorities: membership.authorities)
            return false
        } catch {
            return error.code == .otherRelay
        }
    }

    // MARK: The relay

    /// - Returns: Also whether the address names the relay's id; `nil` if this device has known the relay before.
    private func membership(_ known: Membership?) async throws -> (Membership, isPinned: Bool?) {
        let device = DeviceDescription.thisDevice
        let checkedName = try Membership.checked(name ?? known?.name ?? device.name)
        if var known, known.hasRelay {
            if let relay, try !PinnedRelay(parsing: relay, allowsPlainHTTP: true).address.origin.utf8.elementsEqual(known.relay.utf8) {
                throw AgentError(
                    "alreadyJoined",
                    "this profile is an account at \(known.relay). To sign in to another one, run: relay login URL --profile NAME",
                    .failed
                )
            }
            known.name = checkedName
            known.caFile = caFile ?? known.caFile
            return (known, nil)
        }
        guard let relay else {
            throw AgentError("relayMissing", "which relay? Run `relay login URL`, or `relay join` with a join link", .usage)
        }
        let pinned = try PinnedRelay(parsing: relay, allowsPlainHTTP: allowsPlainHTTP)
        let address = pinned.address
        let id = if let pin = pinned.id { pin } else { try await identify(address) }
        let membership = Membership(
            relay: address.origin,
            relayID: id,
            name: checkedName,
            kind: known?.kind ?? device.kind,
            allowsPlainHTTP: allowsPlainHTTP,
            caFile: caFile
        )
        return (membership, pinned.id != nil)
    }

    /// The id of a relay that its web certificate authenticates.
    private func identify(_ address: RelayAddress) async throws -> RelayID {
        guard let url = URL(exactly: address.origin) else { throw PinnedRelay.invalid(address.origin) }
        do throws(AccountError) {
            return try await RelayID(
                ofRelayAt: url,
                allowsPlainHTTP: allowsPlainHTTP,
                authorities: caFile.map { .file(URL(filePath: $0)) } ?? .system
            )
        } catch {
            guard error.code == .otherRelay else { throw error }
            throw AgentError(
                "relayNotTrusted",
                "\(error.message). A relay with a certificate of its own key is named with its id, as its first start and `relayd invite` print it: relay login '\(address.origin)/#relay=ID'",
                .unreachable
            )
        }
    }

    /// - Throws: if the relay accepts the account's login.
    private func checkLoginIsOver(_ membership: Membership, _ context: AgentContext) async throws {
        let isSignedIn = try await context.withPlatform(membership) { local in
            guard local.isJoined else { return false }
            do {
                try await local.waitForDirectory()
                return true
            } catch let problem as ConnectionError where problem.code == .authenticationError {
                return false
            }
        }
        if isSignedIn {
            throw AgentError(
                "alreadyJoined",
                "this profile is signed in. To sign in to another account, run: relay login URL --profile NAME",
                .failed
            )
        }
    }

    private func event(_ local: LocalDevice, _ membership: Membership, _ context: AgentContext) async throws -> Event {
        let accounts = local.platform.accounts
        return Event(
            event: .signedIn,
            profile: context.account,
            relay: membership.relay,
            relayID: "\(membership.relayID)",
            issuer: try accounts.login(of: local.account)?.issuer,
            accountName: local.accountName,
            name: membership.name,
            device: "\(try accounts.systemID)",
            endpoint: accounts.endpoint(of: local.account)?.description,
            connected: await local.connectionState()?.isConnected ?? false
        )
    }
}
