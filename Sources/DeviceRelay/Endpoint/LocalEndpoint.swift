// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import NIOPosix
import RelayProtocol
import Synchronization

/// An endpoint: this installation, for one account at one relay. It connects the endpoint's parts. All work happens on the event loop of its
/// connection, so messages of the relay are handled in order and without a thread change.
///
/// - `ControlLink` connects to the relay, and sends and receives messages. `OwnIdentity` keeps this endpoint's record, account and keys.
/// - `Peers` stores the account's other endpoints, and decides which of them are known.
/// - `Outbox` sends commands. `Inbox` receives them, for the apps that `Publisher` hosts.
/// - `SessionPool` keeps the sessions with other endpoints.
/// - `StorageGuard` disconnects the endpoint while its storage fails.
actor LocalEndpoint {
    nonisolated let endpoint: EndpointContext
    nonisolated var unownedExecutor: UnownedSerialExecutor { endpoint.loop.unownedExecutor }

    nonisolated let directories: CurrentValue<[String: DeviceDirectory]>
    private let storageGuard: StorageGuard
    let identity: OwnIdentity
    let control: ControlLink
    let peers: Peers
    let publisher: Publisher
    let outbox: Outbox
    let inbox: Inbox
    let sessions: SessionPool
    /// `nil` if the local network is not used.
    let nearby: NearbyNetwork?
    let direct: DirectCommands?
    let candidates: CandidateChannel?
    /// `nil` in the anonymous account: paired devices belong to other people.
    let doctor: DoctorService?
    /// Receives what other devices send.
    let shares: ShareReceiver
    let notifier: Notifier
    nonisolated let notifications = CurrentValue(Notifier.Status())
    /// The last one since the start.
    nonisolated let identityChange = CurrentValue<IdentityChange?>(nil)
    nonisolated let fetching = CurrentValue(Fetching())

    var life = EndpointLife()
    /// The next connection of a suspended endpoint that polls.
    var poll: Scheduled<Void>?

    /// How often pairings of other processes are looked for where the system does not tell of writes, in milliseconds.
    private static let pairingInterval: Int64 = 3_000
    /// No relay tells what another process of the anonymous endpoint has paired.
    private let pairingWatch: ChangeWatch?
    /// How often command changes of other processes are looked for where the system does not tell of writes, in milliseconds.
    private static let commandInterval: Int64 = 5_000
    private let commandWatch: ChangeWatch
    var pairingHosts: [PairingHost] = []
    var receptionHosts: [ReceptionHost] = []
    var browsers: [VisibleDeviceBrowser] = []

    private var arePartsConnected = false
    /// Whether expired invitations were deleted. This happens once for each process.
    private var hasForgottenInvitations = false

    /// The state of the connection to the relay.
    struct Link: Hashable, Sendable {
        var state = ConnectionState(phase: .stopped, problem: nil)
        /// Whether requests can be sent. While the endpoint leaves, it is connected and sends none.
        var takesRequests = false
        /// Whether the relay has listed all endpoints on this connection.
        var isEnumerated = false
        /// Whether a known endpoint is on this network.
        var hasNeighbours = false
        /// Whether the token provider works, which may mean that a user signs in.
        var isRequestingToken = false
        /// Whether the app is asked about the account that the relay has stated.
        var isConfirmingAccount = false
        /// Whether a user may be busy with the sign-in.
        var isWithUser: Bool { isRequestingToken || isConfirmingAccount }
        /// The URL of the node to which the relay has sent this connection; `nil` if it has sent it nowhere.
        var node: String?
        /// The account's name at the relay; `nil` if the relay has stated none.
        var accountName: String?
        /// The version of the relay's program, as it has said last.
        var relaySoftware: String?
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
        var (own, target) = try journal.read { (try $0.ownEndpoint(), try $0.target()) }
        if endpoint.isAnonymous, own.account == nil {
            own.account = account.id
            journal.writeLater { try $0.setAccount(account.id) }
        }
        let notification = try journal.read { try $0.notification() }
        let (offset, urls) = try journal.read { (try $0.relayOffset() ?? 0, try $0.relayURLs()) }
        if let replaced = try journal.read({ try $0.replaced() }) {
            logger.warning("\(Journal.replacementWarning(endpoint.storage.journalPath, at: replaced))")
        }
        let clock = RelayClock(loop, journal, offset: offset)
        let storageGuard = StorageGuard(loop, journal, logger)
        let identity = OwnIdentity(endpoint, stored: own, invitationProof: invitationProof)
        let control = ControlLink(endpoint, clock: clock, storage: storageGuard, identity: identity, relayURLs: urls)
        let book = try journal.read { try PeerBook(own: endpoint.id, directoryName: account.id, stored: own, $0) }
        let peers = Peers(endpoint, link: control, clock: clock, book: book, directories: directories)
        let publisher = Publisher(endpoint, link: control, identity: identity)
        self.endpoint = endpoint
        self.directories = directories
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
        self.pairingWatch =
            endpoint.isAnonymous
            ? ChangeWatch.file(journal.commitFile, loop, every: Self.pairingInterval) { [weak peers] in peers?.readPairings() } : nil
        self.commandWatch = ChangeWatch.file(journal.commitFile, loop, every: Self.commandInterval) { journal.commandsChanged() }
        let isNearby = endpoint.settings.nearby.mode != .off
        let nearby = isNearby ? NearbyNetwork(endpoint, clock: clock) { [weak peers] in peers?.linkKeys ?? [:] } : nil
        self.nearby = nearby
        self.candidates = nearby.map { CandidateChannel(own: endpoint.id, control: control, nearby: $0) }
        let sources = [nearby].compactMap { $0 as (any PathSource)? }
        self.sessions = SessionPool(endpoint, link: control, identity: identity, peers: peers, publisher: publisher, sources: sources)
        let (sessions, outbox, inbox) = (sessions, outbox, inbox)
        self.direct = nearby.map { nearby in
            DirectCommands(endpoint, control: control, sessions: sessions, peers: peers, outbox: outbox, inbox: inbox) {
                [weak nearby] in nearby?.isSeen($0) ?? false
            }
        }
        self.doctor = endpoint.isAnonymous ? nil : DoctorService(loop, clock: clock, nearby: nearby)
        self.shares = ShareReceiver(sessions.bulk)
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
    func wire() {
        guard !arePartsConnected else { return }
        arePartsConnected = true
        control.onEvent = { [weak self] event in self?.assumeIsolated { $0.take(event) } }
        control.finishWork = { [weak self] in await self?.finishWork() }
        peers.onEvent = { [weak self] event in self?.assumeIsolated { $0.take(event) } }
        inbox.onIdle = { [fetching] isIdle in
            if fetching.value.isInboxIdle != isIdle { fetching.update { $0.isInboxIdle = isIdle } }
        }
        peers.onChange = { [weak nearby] in nearby?.peersChanged() }
        outbox.direct = direct
        inbox.direct = direct
        sessions.admissions.directService = { [weak direct, weak control] in control?.isHost ?? false ? direct?.service : nil }
        sessions.admissions.ownService = { [weak doctor, weak control] in control?.isHost ?? false ? doctor?.service : nil }
        nearby?.onPresence = { [weak peers, weak nearby, weak direct, weak sessions, status = endpoint.status] peer, presence in
            peers?.take(.presence(peer, presence, on: .nearby))
            let hasNeighbours = nearby?.hasNeighbours ?? false
            if hasNeighbours != status.value.hasNeighbours { status.update { $0.hasNeighbours = hasNeighbours } }
            guard presence != nil else { return }
            direct?.review()
            sessions?.appeared(peer)
        }
        // What another process has paired or ended holds for the next connection.
        if endpoint.isAnonymous { nearby?.beforeKnock = { [weak peers] in peers?.readPairingsSoon() } }
        nearby?.onNetworkChange = { [weak sessions, weak control] in
            sessions?.networkChanged()
            control?.retryNow()
        }
        nearby?.onListening = { [weak candidates] in candidates?.moved() }
        nearby?.onTold = { [weak sessions] in sessions?.appeared($0) }
        sessions.tunnels.onBegin = { [weak candidates] in candidates?.began($0, with: $1) }
        sessions.tunnels.onEnd = { [weak candidates] in candidates?.ended($0) }
        nearby?.onKnock = { [weak sessions] peer, transport in sessions?.knocked(peer, over: transport) }
        sessions.onDirectSession = { [weak nearby] peer in nearby?.met(peer) }
        storageGuard.onFailure = { [weak self] error in self?.assumeIsolated { $0.storageFailed(error) } }
        storageGuard.onRecovery = { [weak self] in self?.assumeIsolated { $0.storageRecovered() } }
    }

    private func take(_ event: ControlLink.Event) {
        switch event {
        case .connected(let welcome):
            identity.welcomed(welcome)
            outbox.connected()
            if control.isHost { inbox.connected() }
            peers.connected()
            if control.isHost { publisher.connected() }
            notifier.connected(isHost: control.isHost)
            nearby?.relayChanged(isAway: false)
            candidates?.connected(welcome)
            direct?.review()
        case .disconnected(let reason): disconnected(reason)
        case .message(let message): take(message)
        }
    }

    private func take(_ message: RelayMessage) {
        switch message {
        case .endpointAdded, .endpointUpdated, .endpointRemoved, .enumerationCompleted:
            if let event = DirectoryEvent(message) { peers.take(event) }
        case .command(let message): if control.isHost { inbox.offered(message) }
        case .commandCancel(let message): inbox.cancelled(message)
        case .commandStatus(let message): outbox.receive(message)
        case .tunnelOffer(let message): sessions.offered(message)
        case .tunnelReady(let message): sessions.tunnels.ready(message)
        case .tunnelFailed(let message): sessions.tunnels.failed(message)
        case .tunnelCandidates(let message): candidates?.received(message)
        case .notificationsState(let message): notifier.receive(message)
        case .identityChanged(let message): identityChange.update { $0 = IdentityChange(message) }
        // The control channel handles these messages itself.
        case .challenge, .welcome, .rejected, .ok, .failure, .commandSettled, .authExpiring, .authInvalidated, .replaced, .restarting: break
        }
    }

    private func take(_ event: Peers.Event) {
        switch event {
        case .enumerated:
            inbox.takeHeld()
            nearby?.repeatPresences()
        case .shutOut(let peer): sessions.close(with: peer)
        case .gone(let sender): inbox.senderRemoved(sender)
        }
    }

    /// Waits until the work is done that the relay's messages so far have caused: it is stored, or the storage has failed.
    private func finishWork() async {
        await outbox.finishWork()
        await inbox.finishWork()
        // The journal works in order.
        try? await endpoint.journal.write { _ in }
    }

    private func disconnected(_ reason: DisconnectReason) {
        nearby?.relayChanged(isAway: true)
        candidates?.disconnected()
        sessions.disconnected()
        outbox.disconnected()
        inbox.disconnected()
        peers.disconnected(reason == .suspended ? nil : control.problem)
        direct?.review()
        guard case .rejected(let rejected) = reason else { return }
        do {
            switch try identity.recovery(from: rejected) {
            case .account(let account): stated(account)
            case .record: control.startAgain(atOnce: false)
            case nil: break
            }
        } catch {
            storageGuard.fail(error)
        }
    }

    /// The relay registers this endpoint in the account with the next hello. So this is where the app is asked.
    private func stated(_ account: OwnIdentity.StatedAccount) {
        guard let confirms = endpoint.settings.confirmsAccount else { return adopt(account) }
        control.pauseForQuestion()
        // An earlier connection has led to the same question.
        guard !link.value.isConfirmingAccount else { return }
        link.update { $0.isConfirmingAccount = true }
        let question = AccountToJoin(accountID: endpoint.account.id, name: account.name)
        endpoint.loop.spawn(self) { endpoint in
            let isConfirmed = await appCode { await confirms(question) }
            if !isConfirmed { await endpoint.endLogin(forgets: true) }
            await endpoint.answered(account, isConfirmed)
        }
    }

    private func answered(_ account: OwnIdentity.StatedAccount, _ isConfirmed: Bool) {
        if isConfirmed {
            adopt(account)
        } else {
            control.leave(because: .accountNotConfirmed)
        }
        link.update { $0.isConfirmingAccount = false }
    }

    private func adopt(_ account: OwnIdentity.StatedAccount) {
        let isOther = identity.adopt(account)
        peers.accountChanged(to: account.id, isOther: isOther)
        control.startAgain(atOnce: true)
    }

    /// Disconnects until the storage works again, because the endpoint must not accept commands that it cannot store.
    private func storageFailed(_ error: any Error) { control.leave(because: ConnectionError(.storageFailed, "\(error)")) }

    private func storageRecovered() {
        guard life.isWanted else { return storageGuard.reset() }
        endpoint.loop.spawn(self) { await $0.start() }
    }

    // MARK: Start and end

    func start() async {
        guard life.start() else { return }
        let begun = life
        wire()
        storageGuard.reset()
        if !hasForgottenInvitations {
            do {
                try await peers.forgetOldInvitations()
                hasForgottenInvitations = true
            } catch {
                return storageGuard.fail(error)
            }
        }
        // It may have been suspended or shut down in the meantime.
        guard life.mayGoOn(since: begun) else { return }
        if control.isHost { inbox.start() }
        endpoint.loop.spawn(outbox) { await $0.start() }
        sessions.start()
        nearby?.start(isHost: control.isHost)
        direct?.start()
        control.start()
        if let pairingWatch {
            // Before the read, so that no pairing is missed.
            pairingWatch.start()
            peers.readPairings()
        }
    }

    /// Tells the journal's revision of what other processes write, from now on.
    func followCommands() {
        if !life.isShutDown { commandWatch.start() }
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
        sessions.suspend()
        direct?.stop()
        await nearby?.stop()
        try? await pairingWatch?.stop()?.get()
        await control.closed()
        await sessions.closeAll()
    }

    /// Ends the endpoint. Returns when all its tasks, sockets and timers have ended.
    func shutDown(_ reason: EndpointMessage.Leaving.Reason) async {
        guard !life.isShutDown else { return }
        await leave(reason)
        life.shutDown()
        // It may have started again while the connection closed.
        await nearby?.stop()
        try? await pairingWatch?.stop()?.get()
        try? await commandWatch.stop()?.get()
        await endVisibility()
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
        identityChange.finish()
        fetching.finish()
        endpoint.journal.close()
    }

    /// Reconnects, because the device's network has changed.
    func networkChanged() { control.retryNow() }
}
