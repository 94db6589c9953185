// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import NIOPosix
import RelayProtocol
import Synchronization

/// An endpoint: this installation, for one account at one relay. It connects the endpoint's parts, and is the interface for the rest of the
/// SDK. All work happens on the event loop of its connection, so messages of the relay are handled in order and without a thread change.
///
/// - `ControlLink` connects to the relay, and sends and receives messages. `OwnIdentity` keeps this endpoint's record, account and keys.
/// - `Peers` stores the account's other endpoints, and decides which of them are known.
/// - `Outbox` sends commands. `Inbox` receives them, for the apps that `Publisher` hosts.
/// - `SessionPool` keeps the sessions with other endpoints.
/// - `StorageGuard` disconnects the endpoint while its storage fails.
actor LocalEndpoint {
    private nonisolated let endpoint: EndpointContext
    nonisolated var unownedExecutor: UnownedSerialExecutor { endpoint.loop.unownedExecutor }

    private let storageGuard: StorageGuard
    private let identity: OwnIdentity
    private let control: ControlLink
    private let peers: Peers
    private let publisher: Publisher
    private let outbox: Outbox
    private let inbox: Inbox
    private let sessions: SessionPool
    private let notifier: Notifier
    nonisolated let notifications = CurrentValue(Notifier.Status())
    nonisolated let fetching = CurrentValue(Fetching())

    /// Whether the endpoint connects only to fetch what waits.
    var isSuspended = false
    /// The number of fetches that run.
    var fetches = 0
    /// The next connection of a suspended endpoint that polls.
    var poll: Scheduled<Void>?

    private var arePartsConnected = false
    private var hasStarted = false
    /// Whether expired invitations were deleted. This happens once for each process.
    private var hasForgottenInvitations = false
    private var isShutDown = false

    /// The state of the connection to the relay.
    struct Link: Hashable, Sendable {
        var state = ConnectionState(phase: .stopped, problem: nil)
        /// Whether requests can be sent. While the endpoint leaves, it is connected and sends none.
        var takesRequests = false
        /// Whether the relay has listed all endpoints on this connection.
        var isEnumerated = false
        /// Whether the token provider works, which may mean that a user signs in.
        var isRequestingToken = false
    }

    init(
        account: ConnectedDevicesAccount,
        storage: AccountStorage,
        settings: ConnectedDevicesPlatformSettings,
        accessTokens: any AccessTokenProvider,
        directories: CurrentValue<[String: DeviceDirectory]>,
        invitationProof: Secret<[UInt8]>? = nil
    ) throws {
        let endpoint = try EndpointContext(account, storage, settings, accessTokens, on: Self.nextLoop())
        let (loop, journal, logger) = (endpoint.loop, endpoint.journal, endpoint.logger)
        let (own, target) = try journal.read { (try $0.ownEndpoint(), try $0.target()) }
        let notification = try journal.read { try $0.notification() }
        let (offset, urls) = try journal.read { (try $0.relayOffset() ?? 0, try $0.relayURLs()) }
        let clock = RelayClock(loop, journal, offset: offset)
        let storageGuard = StorageGuard(loop, journal, logger)
        let identity = OwnIdentity(endpoint, stored: own, invitationProof: invitationProof)
        let control = ControlLink(endpoint, clock: clock, storage: storageGuard, identity: identity, relayURLs: urls)
        let book = try journal.read { try PeerBook(own: endpoint.id, directoryName: account.id, stored: own, $0) }
        let peers = Peers(endpoint, link: control, clock: clock, book: book, directories: directories)
        let publisher = Publisher(endpoint, link: control, identity: identity)
        self.endpoint = endpoint
        self.storageGuard = storageGuard
        self.identity = identity
        self.control = control
        self.peers = peers
        self.publisher = publisher
        self.outbox = Outbox(endpoint, link: control, clock: clock, storage: storageGuard, identity: identity, peers: peers)
        self.inbox = Inbox(
            endpoint,
            stored: target,
            link: control,
            clock: clock,
            storage: storageGuard,
            identity: identity,
            peers: peers,
            app: publisher.app
        )
        self.sessions = SessionPool(endpoint, link: control, peers: peers, publisher: publisher)
        self.notifier = Notifier(endpoint, stored: notification, link: control, status: notifications)
    }

    private static let loops = Array(MultiThreadedEventLoopGroup.singleton.makeIterator())
    private static let endpointCount = Atomic(0)

    /// Distributes the endpoints over the loops. The group's own counter is shared with other users, so all endpoints could get the same
    /// loop.
    static func nextLoop() -> any EventLoop {
        loops[endpointCount.wrappingAdd(1, ordering: .relaxed).oldValue % loops.count]
    }

    // MARK: Wiring

    /// Connects the parts: it passes the events of each part to the others.
    private func wire() {
        guard !arePartsConnected else { return }
        arePartsConnected = true
        control.onEvent = { [weak self] event in self?.assumeIsolated { $0.take(event) } }
        peers.onEvent = { [weak self] event in self?.assumeIsolated { $0.take(event) } }
        inbox.onIdle = { [fetching] isIdle in
            if fetching.value.isInboxIdle != isIdle { fetching.update { $0.isInboxIdle = isIdle } }
        }
        storageGuard.onFailure = { [weak self] error in self?.assumeIsolated { $0.storageFailed(error) } }
        storageGuard.onRecovery = { [weak self] in self?.assumeIsolated { $0.storageRecovered() } }
    }

    private func take(_ event: ControlLink.Event) {
        switch event {
        case .connected:
            identity.welcomed()
            outbox.connected()
            if control.isHost { inbox.connected() }
            peers.connected()
            if control.isHost { publisher.connected() }
            notifier.connected(isHost: control.isHost)
        case .disconnected(let reason): disconnected(reason)
        case .message(let message): take(message)
        }
    }

    private func take(_ message: RelayMessage) {
        switch message {
        case .endpointAdded(let message): peers.added(message)
        case .endpointUpdated(let message): peers.updated(message)
        case .endpointRemoved(let message): peers.removed(message)
        case .enumerationCompleted: peers.enumerated()
        case .command(let message): if control.isHost { inbox.offered(message) }
        case .commandCancel(let message): inbox.cancelled(message)
        case .commandStatus(let message): outbox.receive(message)
        case .tunnelOffer(let message): sessions.offered(message)
        case .tunnelReady(let message): sessions.ready(message)
        case .tunnelFailed(let message): sessions.failed(message)
        case .notificationsState(let message): notifier.receive(message)
        // The control channel handles these messages itself.
        case .challenge, .welcome, .rejected, .ok, .failure, .commandSettled, .authExpiring, .authInvalidated, .replaced, .restarting: break
        }
    }

    private func take(_ event: Peers.Event) {
        switch event {
        case .enumerated: inbox.takeHeld()
        case .shutOut(let peer): sessions.close(with: peer)
        case .gone(let sender): inbox.senderRemoved(sender)
        }
    }

    private func disconnected(_ reason: DisconnectReason) {
        sessions.disconnected()
        outbox.disconnected()
        inbox.disconnected()
        peers.disconnected(reason == .suspended ? nil : control.problem)
        guard case .rejected(let rejected) = reason else { return }
        do {
            switch try identity.recovery(from: rejected) {
            case .account(let account, let isOther):
                peers.accountChanged(to: account, isOther: isOther)
                control.startAgain(atOnce: true)
            case .record: control.startAgain(atOnce: false)
            case nil: break
            }
        } catch {
            storageGuard.fail(error)
        }
    }

    /// Disconnects until the storage works again, because the endpoint must not accept commands that it cannot store.
    private func storageFailed(_ error: any Error) { control.leave(because: ConnectionError(.storageFailed, "\(error)")) }

    private func storageRecovered() { endpoint.loop.spawn(self) { await $0.start() } }

    // MARK: Start and end

    func start() async {
        guard !isShutDown else { return }
        wire()
        storageGuard.reset()
        hasStarted = true
        if !hasForgottenInvitations {
            do {
                try await peers.forgetOldInvitations()
                hasForgottenInvitations = true
            } catch {
                return storageGuard.fail(error)
            }
        }
        if control.isHost { inbox.start() }
        control.start()
    }

    /// Reconnects after a new sign-in with a join link. The link may be for another account, so the relay states the account again.
    func startAgain(joining link: JoinLink) async {
        identity.signedInAgain()
        if let proof = link.proofSecret { identity.setInvitationProof(proof) }
        await peers.joined(by: link)
        control.leave(.suspended)
        await control.closed()
        await start()
    }

    /// Ends the connection and all sessions, until `start` is called.
    func leave(_ reason: EndpointMessage.Leaving.Reason) async {
        storageGuard.reset()
        control.leave(reason)
        await control.closed()
        // The control link is stopped now, so the pool rejects sessions that are established later.
        await sessions.closeAll()
    }

    /// Ends the endpoint. Returns when all its tasks, sockets and timers have ended.
    func shutDown(_ reason: EndpointMessage.Leaving.Reason) async {
        guard !isShutDown else { return }
        await leave(reason)
        isShutDown = true
        poll?.cancel()
        storageGuard.end()
        control.end()
        sessions.end()
        inbox.stop()
        await endpoint.loop.end()
        publisher.end()
        await outbox.end()
        await inbox.end()
        endpoint.status.finish()
        notifications.finish()
        fetching.finish()
        endpoint.journal.close()
    }

    /// Reconnects, because the device's network has changed.
    func networkChanged() { control.retryNow() }

    // MARK: Interface for the SDK

    nonisolated var id: EndpointID { endpoint.id }
    nonisolated var account: ConnectedDevicesAccount { endpoint.account }
    nonisolated var storage: AccountStorage { endpoint.storage }
    nonisolated var journal: Journal { endpoint.journal }
    nonisolated var identityKey: any IdentityKey { endpoint.identityKey }
    nonisolated var credentials: EndpointCredentials { endpoint.credentials }
    nonisolated var accessTokens: any AccessTokenProvider { endpoint.accessTokens }
    nonisolated var logger: Logger { endpoint.logger }
    nonisolated var loop: any EventLoop { endpoint.loop.eventLoop }
    nonisolated var link: CurrentValue<Link> { endpoint.status }

    /// Accepts commands for an app from now on. This gives the endpoint's control channel the host role.
    func host(_ registration: RemoteSystemAppRegistration) {
        wire()
        publisher.host(registration)
        guard !control.isHost else { return }
        let wasActive = control.becomeHost()
        guard hasStarted else { return }
        inbox.start()
        if wasActive { control.start() }
    }

    func publish(_ registration: RemoteSystemAppRegistration) {
        host(registration)
        publisher.publish(registration)
    }

    func published(_ appID: String) async -> Result<Void, PublishError> { await publisher.published(appID) }

    func unpublish(_ appID: String) async -> Result<Void, PublishError> { await publisher.unpublish(appID) }

    /// Stores a command, which then proceeds independently of the caller.
    func submit(
        _ body: CommandBody,
        to target: ResolvedTarget,
        life: Duration,
        senderApp: String? = nil
    ) async throws(CommandFailure) -> RemoteCommand {
        guard !isShutDown else { throw .shutDown }
        let (row, state) = try await outbox.submit(body, to: target, life: life, senderApp: publisher.callingApp(senderApp))
        return RemoteCommand(row, state, self)
    }

    func cancel(_ id: CommandID) async throws(CommandFailure) { try await outbox.cancel(id) }

    /// The stored commands: all open ones, and the latest ended ones.
    func commands() async throws -> [RemoteCommand] { try await outbox.commands().map { RemoteCommand($0.0, $0.1, self) } }

    func reply(to id: CommandID, _ final: CommandFinal) async throws -> ValueSet? { try await outbox.reply(to: id, final) }

    func open(
        _ info: AppServiceInfo,
        on target: ResolvedTarget,
        from appID: String?,
        timeout: Duration
    ) async throws(AppServiceError) -> AppServiceConnection {
        try await sessions.open(info, on: target, from: appID, timeout: timeout)
    }

    var pinnedRecords: [EndpointRecord] { peers.pinnedRecords }

    func invite() async throws(AccountError) -> JoinLink { try await peers.invite() }

    func linkIdentity(signingInBy provider: any AccessTokenProvider) async throws(AccountError) {
        // The user is not asked to sign in if the link would be refused.
        guard control.isConnected else { throw AccountError(.networkNotAvailable, message: "the relay is not connected; try again later") }
        // The login is not kept, so it needs no refresh token.
        let request = endpoint.tokenRequest(AccessTokenScope.all.subtracting([.offlineAccess]))
        let token: AccessToken
        do throws(AccessTokenError) {
            if let provider = provider as? any FreshSigningIn {
                token = try await provider.freshToken(for: request)
            } else {
                token = try await provider.accessToken(for: request)
            }
        } catch {
            throw AccountError(error)
        }
        let answer = await withCheckedContinuation { continuation in
            control.requestPatiently(endpoint.loop) {
                .identityLink(.init(ref: $0, token: Secret(token.value)))
            } answer: {
                continuation.resume(returning: $0)
            }
        }
        switch answer {
        case .ok, .settled: return
        case .failure(let failure): throw AccountError(ofLinking: failure)
        case .connectionLost: throw AccountError(.networkNotAvailable, message: "the relay did not answer; try again")
        }
    }

    /// - Parameter system: The device that the person saw; `nil` for any.
    func confirm(_ peer: EndpointID, on system: SystemID?) async -> Bool {
        guard system == nil || peers.record(of: peer)?.systemID == system else { return false }
        return await peers.confirm(peer)
    }

    func revoke(_ peer: EndpointID) async throws -> ControlAnswer {
        // Before the relay has stated the account, no other endpoint is known.
        guard let account = identity.account else { return .connectionLost }
        return try await peers.revoke(peer, account: account)
    }

    /// Signs a record with the current name of the device, and sends it.
    /// - Returns: Whether the relay has it. Otherwise it gets it on the next connection.
    func updateRecord() async -> Bool {
        guard let record = try? identity.currentRecord() else { return false }
        return await publisher.update(record)
    }

    // MARK: Notifications

    var endpointLoop: EndpointLoop { endpoint.loop }
    var pollingInterval: Int64? { notifier.pollingInterval }

    /// Stores a registration and waits for the relay's answer to it.
    func register(_ registration: StoredNotification) async throws(NotificationRegistrationError) {
        do {
            try await notifier.register(registration)
        } catch {
            throw NotificationRegistrationError(.storageFailed, "the registration cannot be stored: \(error)")
        }
        guard control.isHost else {
            throw NotificationRegistrationError(.notHosting, "it is stored, and is sent once an app is hosted: call host or publish")
        }
        let status = await notifications.first(within: .seconds(30)) { $0.answer != nil || $0.registration != registration }
        guard let status else {
            if Task.isCancelled { throw NotificationRegistrationError(.cancelled, "the task was cancelled") }
            throw NotificationRegistrationError(.relayUnavailable, "it is stored, and is sent on the next connection")
        }
        guard status.registration == registration else {
            throw NotificationRegistrationError(.cancelled, "a newer registration came first")
        }
        if case .failed(let error) = status.answer { throw error }
    }

    /// Asks the relay to answer once all commands have arrived.
    func requestDrain() {
        control.request {
            .mailboxDrain(.init(ref: $0))
        } answer: { [fetching] answer in
            let result: Fetching.Answer =
                switch answer {
                case .ok, .settled: .served
                case .failure: .refused
                case .connectionLost: .connectionLost
                }
            fetching.update { fetching in
                fetching.answers += 1
                fetching.lastAnswer = result
            }
        }
    }

    /// Removes all devices from the directory, because the account was removed.
    func forgetDevices() { peers.removeAll() }
}
