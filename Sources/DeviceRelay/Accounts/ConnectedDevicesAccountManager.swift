// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
import Logging
public import RelayProtocol
import RelayStorage
import Synchronization

/// The accounts of a platform. They are stored and survive a restart of the app.
public struct ConnectedDevicesAccountManager: Sendable {
    let platform: ConnectedDevicesPlatform

    /// The added accounts, sorted by id. Empty before the platform's `start`.
    public var all: [ConnectedDevicesAccount] {
        platform.state.withLock { Array($0.endpoints.values) }.map(\.account).sorted { $0.id < $1.id }
    }

    /// Adds an account. The anonymous account is there at once. For any other it signs the user in, registers this installation as an
    /// endpoint of it, and connects. It waits as long as the
    /// user needs to sign in. An account that was added before is signed in again by a link, or without one if its login has ended;
    /// otherwise the call has no effect.
    /// - Parameters:
    ///   - account: The account, with the app's id.
    ///   - link: A join link of the relay's own issuer; it works once. The platform's provider must be a
    ///     `JoinLinkAccessTokenProvider` or a `DeviceGrantAccessTokenProvider`. Without a link the platform's provider signs the user
    ///     in.
    /// - Returns: The account, once the relay has accepted this endpoint. After a link was used, it returns even if the relay
    ///   is not reachable yet.
    /// - Throws: `AccountError`; `accountNotConfirmed` if the settings' `confirmsAccount` declines it. An account that could not be added leaves
    ///   no data behind, and its login is ended. If it is not known whether a link was used, its keys remain, and the same link works again
    ///   with them.
    @discardableResult
    public func add(_ account: ConnectedDevicesAccount, joining link: JoinLink? = nil) async throws(AccountError) -> ConnectedDevicesAccount
    {
        try await platform.add(account, joining: link)
        return account
    }

    /// Removes an account: revokes this endpoint at the relay, ends the login that the platform stores at its issuer, and destroys its keys,
    /// tokens and commands. If the relay is not reachable, the endpoint and its login remain there until another device
    /// revokes this one.
    /// - Returns: Whether the relay has accepted the revocation.
    /// - Throws: `AccountError`: `notFound`, `storageFailed`.
    @discardableResult
    public func remove(_ account: ConnectedDevicesAccount) async throws(AccountError) -> Bool {
        try await platform.remove(account)
    }

    /// Creates a join link for one more device of the account. It works once, for ten minutes. Unlike a link of the relay's
    /// operator, it proves to this device that the new device was invited, so that all devices know the new one at once.
    /// - Throws: `AccountError`: `notFound`, `accessTokenRequestFailed` (also if the account's tokens are not from the relay's own issuer),
    ///   `networkNotAvailable`, `serviceFailed`, `storageFailed`.
    public func invite(to account: ConnectedDevicesAccount) async throws(AccountError) -> JoinLink {
        guard account != .anonymous, let endpoint = platform.endpoint(of: account.id) else { throw AccountError(notFound: account) }
        return try await endpoint.invite()
    }

    /// Ends the stored login of an account at its issuer, and deletes it here. The account stays.
    package func endLogin(of account: ConnectedDevicesAccount) async {
        await platform.endpoint(of: account.id)?.endLogin(forgets: true)
    }

    /// The endpoint id of this installation; `nil` if the account is unknown.
    public func endpoint(of account: ConnectedDevicesAccount) -> EndpointID? { platform.endpoint(of: account.id)?.id }

    /// The account's name at the relay, as the relay stated it last, with at most 64 characters; `nil` if the account is unknown, has no
    /// name, or has not been connected yet. Unlike `ConnectedDevicesAccount.id`, which the app chooses, it tells a person whose account
    /// this is.
    public func name(of account: ConnectedDevicesAccount) -> String? { platform.endpoint(of: account.id)?.link.value.accountName }

    /// The id of this device. It is the same for all apps of the user.
    /// - Throws: `AccountError` with `storageFailed` if the device's key cannot be read.
    public var systemID: RemoteSystem.ID {
        get throws(AccountError) { RemoteSystem.ID(try systemKeyID) }
    }

    var systemKeyID: SystemID {
        get throws(AccountError) {
            do throws(StorageError) {
                return SystemID(try platform.settings.systemKey.load().publicKey)
            } catch {
                throw AccountError(error)
            }
        }
    }
}

extension ConnectedDevicesPlatform {
    fileprivate func add(_ account: ConnectedDevicesAccount, joining link: JoinLink?) async throws(AccountError) {
        guard !account.id.isEmpty else { throw AccountError(.unknown, message: "an account's id must not be empty") }
        let storage = state.withLock { state -> StorageDirectory? in
            if case .started(let storage) = state.phase { storage } else { nil }
        }
        guard let storage else { throw AccountError(.unknown, message: "start the platform before accounts are added") }
        guard account != .anonymous else {
            guard link == nil else { throw AccountError(.unknown, message: "the anonymous account has no join links") }
            if endpoint(of: account.id) == nil { await begin(try await open(account, at: .none, in: storage, joining: nil)) }
            return
        }
        if let endpoint = endpoint(of: account.id) {
            guard let link else { return try await signInAgain(endpoint) }
            try await join(link, endpoint.credentials)
            await endpoint.startAgain(joining: link)
            return try await confirmed(endpoint)
        }
        let relay = try await relayID(link)
        try await open(account, at: relay, in: storage, joining: link)
        // A link works once, so an account that used one is kept even if the connection fails.
        try await connect(account, isKept: link != nil)
    }

    /// The relay's id: pinned by the link or the settings, or else that of the server at the URL, authenticated by its web certificate.
    private func relayID(_ link: JoinLink?) async throws(AccountError) -> RelayID {
        if let link, let pinned = settings.relayID, link.relay != pinned {
            throw AccountError(.otherRelay, message: "the link leads to another relay than the one in the platform's settings")
        }
        if let known = link?.relay ?? settings.relayID {
            guard known != .none else { throw AccountError(.otherRelay, message: "no relay has this id") }
            return known
        }
        return try await RelayID(
            ofRelayAt: try settings.relayURL,
            allowsPlainHTTP: settings.allowsPlainHTTP,
            authorities: settings.authorities
        )
    }

    /// Creates the endpoint's keys and storage, and redeems the link with them.
    @discardableResult
    private func open(
        _ account: ConnectedDevicesAccount,
        at relay: RelayID,
        in storage: StorageDirectory,
        joining link: JoinLink?
    ) async throws(AccountError) -> LocalEndpoint {
        let scope = AccountScope(relay: relay, accountID: account.id)
        do {
            // The keys of an earlier attempt may have used the link. Only they can use it again.
            let isNew = try !storage.scopes().contains(scope)
            let stored = try storage.open(scope, now: settings.clock.wall())
            do {
                // After a crash in between, the endpoint must not trust all endpoints that the relay lists.
                if let link, link.proof != nil { try await setJoined(by: link.by, in: stored) }
                // All that must be stored exists before the link is used up.
                let endpoint = try endpoint(for: account, stored, invitation: link?.proofSecret)
                do throws(AccountError) {
                    if let link { try await join(link, endpoint.credentials) }
                } catch {
                    await endpoint.shutDown(.signedOut)
                    throw error
                }
                let first = state.withLock { state in
                    if state.endpoints[account.id] == nil { state.endpoints[account.id] = endpoint }
                    return state.endpoints[account.id] ?? endpoint
                }
                // Another task was faster.
                if first !== endpoint { await endpoint.shutDown(.shutdown) }
                return first
            } catch let error as AccountError where error.mayHaveUsedLink {
                // The same holds for these keys.
                throw error
            } catch {
                if isNew { try? storage.remove(scope) }
                throw error
            }
        } catch let error as AccountError {
            throw error
        } catch let error as StorageError {
            throw AccountError(error)
        } catch {
            throw AccountError(.storageFailed, message: "\(PlatformError(error).message)", cause: error)
        }
    }

    private func setJoined(by inviter: EndpointID?, in storage: AccountStorage) async throws {
        let journal = try Journal(path: storage.journalPath, endpoint: EndpointID(try storage.identityKey().publicKey))
        defer { journal.close() }
        try await journal.write { try $0.setJoined(by: inviter) }
    }

    private func join(_ link: JoinLink, _ credentials: EndpointCredentials) async throws(AccountError) {
        guard let provider = accessTokens as? any LinkAccepting else {
            throw AccountError(.noAccessTokenProvider, message: "a join link needs a JoinLinkAccessTokenProvider; give the platform one")
        }
        try await redeem(link, clientID: provider.clientID, as: credentials)
    }

    /// Waits for the relay to accept the endpoint.
    private func connect(_ account: ConnectedDevicesAccount, isKept: Bool) async throws(AccountError) {
        guard let endpoint = endpoint(of: account.id) else { throw AccountError(notFound: account) }
        await begin(endpoint)
        let state = await outcome(of: endpoint)
        if state.isConnected { return }
        // A cancelled question is a no.
        let isKept = isKept && !endpoint.link.value.isConfirmingAccount
        if isKept, state.problem?.code.isTransient ?? true { return }
        await discard(account)
        throw AccountError(notConnected: state)
    }

    /// Removes an account that could not be added. A cancelled task, too, ends the login and reports to the relay.
    private func discard(_ account: ConnectedDevicesAccount) async { _ = try? await Task { try await remove(account) }.value }

    /// Waits for the answer to the question whether this endpoint, which has used a link, joins the link's account.
    private func confirmed(_ endpoint: LocalEndpoint) async throws(AccountError) {
        guard settings.confirmsAccount != nil else { return }
        let state = await outcome(of: endpoint)
        let isDeclined = state.problem?.code == .accountNotConfirmed || endpoint.link.value.isConfirmingAccount
        guard isDeclined else { return }
        // An endpoint that has never been in an account is of no use.
        if await !endpoint.isInAccount { await discard(endpoint.account) }
        throw AccountError(notConnected: state)
    }

    /// Signs an account in again whose login has ended. Other problems are left to the platform.
    private func signInAgain(_ endpoint: LocalEndpoint) async throws(AccountError) {
        let link = endpoint.link.value
        guard link.isWithUser || [.authenticationError, .accountNotConfirmed].contains(link.state.problem?.code) else { return }
        if link.state.phase == .stopped { await endpoint.start() }
        let state = await outcome(of: endpoint)
        guard !state.isConnected, !(state.problem?.code.isTransient ?? false) else { return }
        // The login is one of another account. It is not kept, so that the right one can follow.
        if state.problem?.code == .accountUnknown { await endpoint.endLogin(forgets: true) }
        throw AccountError(notConnected: state)
    }

    /// Waits until an endpoint is connected, or has failed to connect.
    private func outcome(of endpoint: LocalEndpoint) async -> ConnectionState {
        while !Task.isCancelled {
            let link = await endpoint.link.first(within: .seconds(30)) { link in
                link.isWithUser || link.state.isConnected || link.state.phase != .connecting && link.state.problem != nil
            }
            guard let link, link.isWithUser else { return link?.state ?? endpoint.link.value.state }
            // A user may need long to sign in.
            _ = await endpoint.link.first { !$0.isWithUser }
        }
        return endpoint.link.value.state
    }

    fileprivate func remove(_ account: ConnectedDevicesAccount) async throws(AccountError) -> Bool {
        let (endpoint, storage) = state.withLock { state -> (LocalEndpoint?, StorageDirectory?) in
            guard case .started(let storage) = state.phase else { return (nil, nil) }
            return (state.endpoints.removeValue(forKey: account.id), storage)
        }
        guard let endpoint, let storage else { throw AccountError(notFound: account) }
        // Waits briefly for a connection that is being opened: without one the relay's entry would remain.
        let link = await endpoint.link.first(within: .seconds(5)) { $0.state.phase != .connecting }
        var isRevoked = false
        if link?.state.isConnected ?? false, case .ok? = try? await endpoint.revoke(endpoint.id) { isRevoked = true }
        await endpoint.endLogin()
        await endpoint.shutDown(.signedOut)
        await endpoint.forgetDevices()
        do throws(StorageError) {
            try storage.remove(endpoint.storage.scope)
            // The next account begins with the name in the settings.
            if state.withLock({ $0.endpoints.isEmpty }) { try deviceName.delete() }
        } catch {
            throw AccountError(error)
        }
        return isRevoked
    }
}

extension RelayID {
    /// The id of the relay at a URL, authenticated by its web certificate.
    package init(ofRelayAt url: URL, allowsPlainHTTP: Bool, authorities: TrustRoots) async throws(AccountError) {
        do {
            let address = try RelayAddress(url, allowsPlaintext: allowsPlainHTTP)
            self = try await ControlChannelClient().identify(address, trust: RelayTrust(relay: nil, authorities: authorities))
        } catch {
            throw AccountError(ofReaching: error)
        }
    }
}

extension LocalEndpoint {
    /// Ends this endpoint's login at its issuer, even if the relay did not revoke the endpoint. Logins that the platform does not store
    /// belong to the app.
    /// - Parameter forgets: Whether it is deleted here, too.
    func endLogin(forgets: Bool = false) async {
        guard let tokens = try? storage.tokens.read() else { return }
        let client = IssuerClient(credentials, http: HTTPRequestClient(timeout: Self.loginPatience))
        do throws(IssuerClientError) {
            _ = try await client.revoke(tokens)
        } catch {
            logger.warning("the login could not be ended at the issuer", metadata: ["reason": "\(type(of: error))"])
        }
        guard forgets else { return }
        do {
            try await storage.tokens.withExclusiveAccess { stored in if stored == tokens { stored = nil } }
        } catch {
            logger.warning("the login could not be deleted", metadata: ["error": "\(error)"])
        }
    }

    /// In milliseconds. It is short, because a device may leave without a network.
    private static let loginPatience: Int64 = 5_000
}

extension AccountError {
    init(notFound account: ConnectedDevicesAccount) {
        self.init(.notFound, message: "the platform has no account \(account.id), or was not started")
    }

    fileprivate init(notConnected state: ConnectionState) {
        guard !Task.isCancelled || state.problem?.code == .accountNotConfirmed else {
            self.init(.cancelled, message: "the task was cancelled")
            return
        }
        self.init(state.problem ?? ConnectionError(.relayUnreachable, "the relay did not answer in time"))
    }

    init(_ error: AccessTokenError) {
        let code: Code =
            switch error.code {
            case .networkNotAvailable: .networkNotAvailable
            case .serviceFailed: .serviceFailed
            case .noProvider: .noAccessTokenProvider
            case .cancelled: .cancelled
            default: .accessTokenRequestFailed
            }
        self.init(code, message: error.message, cause: error)
    }

    fileprivate init(_ problem: ConnectionError) {
        if let error = problem.tokenError {
            self.init(error)
            return
        }
        let code: Code =
            switch problem.code {
            case .relayNotTrusted: .otherRelay
            case .accountNotConfirmed: .accountNotConfirmed
            case .authenticationError: .accessTokenRequestFailed
            case .relayUnreachable, .connectionLost, .networkChanged, .relayRestarting: .networkNotAvailable
            case .storageFailed: .storageFailed
            default: .serviceFailed
            }
        self.init(code, message: problem.message, cause: problem)
    }

    fileprivate init(ofReaching error: any Error) {
        switch error {
        case RequestFailure.failed(let failure): self.init(ConnectionError(failure))
        case is CancellationError: self.init(.cancelled, message: "the task was cancelled")
        default: self.init(.unknown, message: "\(PlatformError(error).message)", cause: error)
        }
    }
}

extension ConnectionError.Code {
    /// Whether the problem may resolve without an action of the user.
    fileprivate var isTransient: Bool {
        [.relayUnreachable, .connectionLost, .networkChanged, .relayRestarting].contains(self)
    }
}
