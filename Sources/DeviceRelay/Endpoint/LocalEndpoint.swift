// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import NIOPosix
import RelayProtocol
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// This installation, for one account at one relay: it runs the control channel, and what goes over it. Everything of it happens on
/// one event loop, where its connection lives too; so what the relay says is taken in order, without a hop.
///
/// The state machines decide; the extensions carry out what they say, each for its part: the channel, the peers, commands sent,
/// commands received, and the apps that are published.
actor LocalEndpoint {
    nonisolated let loop: any EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor.asUnownedSerialExecutor() }

    nonisolated let account: ConnectedDevicesAccount
    nonisolated let id: EndpointID
    nonisolated let relay: RelayID
    nonisolated let settings: ConnectedDevicesPlatformSettings
    nonisolated let accessTokens: any AccessTokenProvider
    nonisolated let storage: AccountStorage
    nonisolated let journal: Journal
    nonisolated let identityKey: any IdentityKey
    nonisolated let systemKey: any SystemKey
    nonisolated let address: RelayAddress
    nonisolated let logger: Logger
    nonisolated let link = Observed(Link())
    /// The devices of all accounts of the platform, by the app's id of the account.
    nonisolated let directories: Observed<[String: DeviceDirectory]>

    /// Names this process to the relay, so that an older connection of it cannot say anything behind a newer one.
    nonisolated let instance = (0..<16).map { _ in UInt8.random(in: 0 ... .max) }

    // The channel.
    var channel: ControlChannelStateMachine
    var actions: [ControlChannelStateMachine.Action] = []
    var isPerforming = false
    var dialled: RelayAddress
    var dial: ControlDial?
    var socket: ControlConnection?
    /// Of connections that are not closed yet, the present one included.
    var openSockets: Set<Int> = []
    var whenClosed: [CheckedContinuation<Void, Never>] = []
    var timer: (due: Int64, scheduled: Scheduled<Void>)?
    var answers: [RequestRef: Answer] = [:]
    /// What found no room on the connection.
    var waitingForRoom: [@Sendable (isolated LocalEndpoint) -> Void] = []
    var problem: ConnectionProblem?
    /// What the provider of tokens says, while the machine is told.
    var tokenError: AccessTokenError?
    var storageTrouble = StorageTrouble()
    var hasStarted = false
    /// Those that are over are deleted, once for each start.
    var hasForgottenInvitations = false
    var isShutDown = false
    /// How far the relay's clock is ahead of the own one.
    var relayOffset: Int64
    /// Where the relay said to come back to; stored, so that a relay that moved is found after a restart too.
    var relayURLs: [String]
    /// The account's id at the relay, as records name it.
    var relayAccount: String?
    /// The relay may tell another one than before.
    var mayChangeAccount = false
    var record: Signed<EndpointRecord>?
    /// As they were read last, the newest first; read anew at least on every connection, so that those destroyed do not stay.
    var agreementKeys: [any AgreementKey] = []
    var invitationProof: Secret<[UInt8]>?
    /// How often in a row the relay had a newer record than this endpoint.
    var outdatedRecords = 0
    /// The relay has a newer one than this.
    var outdatedVersion: UInt64 = 0

    var peers: PeerBook
    /// Commands that came before the relay has told who belongs to the account, from senders that are not known yet.
    var heldCommands: [HeldCommand] = []
    var sent = SentCommands()
    var sentStates: [CommandID: Observed<SentCommand.State>] = [:]
    var sentWork = WorkQueue<SentWork>()
    /// To be stored soon.
    var noted = Lingering<CommandID, SentCommand>()
    /// The blobs of those that have not left.
    var blobs = RecentlyStored<CommandID, [UInt8]>()
    var commandIDs = CommandIDGenerator()
    var retryAfter: [CommandID: Int64] = [:]
    /// Signed anew, and not stored yet.
    var resigned: [CommandID: JournalTransaction.SentContent] = [:]

    var received: CommandTarget
    var receivedWork = WorkQueue<ReceivedWork>()
    /// To be deleted with the next commit, or soon.
    var settled: Set<CommandKey> = []
    /// Those whose results are on their way to the relay; to be stored soon, unless they are settled before.
    var answered = Lingering<CommandKey, AnsweredCommand>()
    /// There is a timer for what is to be stored soon.
    var isLingering = false
    /// Commands that came, until they are stored or with their handlers.
    var arriving: [CommandKey: ArrivedCommand] = [:]
    /// Those that are stored, and not with their handlers yet.
    var arrived = RecentlyStored<CommandKey, ArrivedCommand>()
    var handlers: [CommandKey: Handler] = [:]
    var apps: [String: HostedApp] = [:]

    var sessions: SessionTable<PeerSession>
    var sessionConnector: SessionConnector?
    /// Sessions that are being opened: one for each peer.
    var dialing: [EndpointID: Dial] = [:]
    /// The peers of sessions that are being accepted: one entry for each.
    var accepting: [EndpointID] = []
    /// Their records, also of those that are not in the directory.
    var introduced: [EndpointID: EndpointRecord] = [:]
    var waitingTunnels: [TunnelID: CheckedContinuation<Result<TunnelEntrance, AppServiceError>, Never>] = [:]
    /// What the relay says of tunnels that this side is entering.
    var tunnelFailures: [TunnelID: Observed<AppServiceError?>] = [:]

    private var tasks: [UInt64: Task<Void, Never>] = [:]
    private var lastTask: UInt64 = 0

    init(
        account: ConnectedDevicesAccount,
        storage: AccountStorage,
        settings: ConnectedDevicesPlatformSettings,
        accessTokens: any AccessTokenProvider,
        directories: Observed<[String: DeviceDirectory]>,
        invitationProof: Secret<[UInt8]>? = nil
    ) throws {
        self.account = account
        self.storage = storage
        self.settings = settings
        self.accessTokens = accessTokens
        self.directories = directories
        self.invitationProof = invitationProof
        self.loop = Self.nextLoop()
        self.address = try RelayAddress(settings.relay, allowsPlaintext: settings.allowsPlainHTTP)
        self.dialled = address
        self.relay = storage.scope.relay
        self.identityKey = try storage.identityKey()
        self.id = EndpointID(identityKey.publicKey)
        self.sessions = SessionTable(own: id)
        self.systemKey = try settings.systemKey.load()
        let journal = try Journal(path: storage.journalPath, endpoint: id)
        self.journal = journal
        let (own, pins, offset, target) = try journal.read { transaction in
            (try transaction.ownEndpoint(), try transaction.pins(), try transaction.relayOffset(), try transaction.target())
        }
        let revoked = try journal.read { try $0.revoked() }
        self.relayURLs = try journal.read { try $0.relayURLs() }
        self.relayAccount = own.account
        self.record = own.record.flatMap { try? Signed<EndpointRecord>(verifying: $0) }
        self.relayOffset = offset ?? 0
        self.received = target
        self.channel = ControlChannelStateMachine(role: .client, relay: storage.scope.relay)
        self.channel.urls = relayURLs
        self.peers = PeerBook(
            own: id,
            directoryName: account.id,
            account: own.account ?? "",
            pins: pins.map { PeerBook.Pin(endpoint: $0.endpoint, record: $0.record, knowledge: $0.knowledge) },
            revoked: revoked,
            inviter: own.inviter,
            hasEnumerated: own.hasEnumerated
        )
        let directory = peers.directory
        directories.update { $0[account.id] = directory }
        var logger = settings.logger
        logger[metadataKey: "endpoint"] = "\(id.label)"
        self.logger = logger
    }

    /// A session that is being opened, and what becomes of it.
    typealias Dial = Observed<Result<PeerSession, AppServiceError>?>

    /// How the endpoint stands with its relay.
    struct Link: Hashable, Sendable {
        var state = ConnectionState(phase: .stopped, problem: nil)
        /// Whether everything there was to be found has been told on this connection.
        var isEnumerated = false
    }

    private static let loops = Array(MultiThreadedEventLoopGroup.singleton.makeIterator())
    private static let endpointCount = Atomic(0)

    /// The loops in turn. Taken from the group, all endpoints could get the same, since others take theirs in between.
    static func nextLoop() -> any EventLoop {
        loops[endpointCount.wrappingAdd(1, ordering: .relaxed).oldValue % loops.count]
    }

    // MARK: Time

    nonisolated var now: Int64 { settings.clock.steady() }
    nonisolated var wallTime: Int64 { settings.clock.wall() }
    /// What the relay's clock shows, as far as is known.
    var relayTime: Int64 { wallTime.addingReportingOverflow(relayOffset).partialValue }

    func after(_ delay: Int64, _ body: @escaping @Sendable (isolated LocalEndpoint) -> Void) -> Scheduled<Void> {
        loop.scheduleTask(in: .milliseconds(max(0, delay))) { [weak self] in
            self?.assumeIsolated { body($0) }
        }
    }

    // MARK: Tasks

    /// Runs something that the endpoint owns, beginning on its loop: it is cancelled, and waited for, when the endpoint shuts down.
    @discardableResult
    func spawn(_ body: @escaping @Sendable (isolated LocalEndpoint) async -> Void) -> Task<Void, Never>? {
        guard !isShutDown else { return nil }
        lastTask &+= 1
        let number = lastTask
        let task = Task {
            await body(self)
            tasks[number] = nil
        }
        tasks[number] = task
        return task
    }

    // MARK: Start and end

    func start() async {
        guard !isShutDown else { return }
        storageTrouble.end()
        if !hasStarted {
            hasStarted = true
            startTarget()
        }
        if !hasForgottenInvitations {
            do {
                try await forgetOldInvitations()
                hasForgottenInvitations = true
            } catch {
                return storageFailed(error)
            }
        }
        workOnReceived()
        perform(channel.start(now: now))
    }

    /// After the person has signed in again, perhaps to another account: which one, the relay tells once more.
    /// - Parameter link: The join link that was used for it.
    func startAgain(joining link: JoinLink) async {
        mayChangeAccount = true
        await joined(by: link)
        perform(channel.leave(.suspended, now: now))
        await closed()
        await start()
    }

    /// Ends the connection, and all sessions, until `start`.
    func leave(_ reason: EndpointMessage.Leaving.Reason) async {
        storageTrouble.end()
        perform(channel.leave(reason, now: now))
        await closed()
        // From here on no session is kept that comes about late.
        await endSessions()
    }

    /// Ends everything: returns when no task, socket or timer is left.
    func shutDown(_ reason: EndpointMessage.Leaving.Reason) async {
        guard !isShutDown else { return }
        await leave(reason)
        isShutDown = true
        timer?.scheduled.cancel()
        timer = nil
        for handler in handlers.values { handler.timer?.cancel() }
        while let (_, task) = tasks.first {
            task.cancel()
            await task.value
        }
        handlers = [:]
        for state in sentStates.values { state.finish() }
        sentStates = [:]
        endPublishing()
        link.finish()
        await storeTheRest()
        journal.close()
    }
}
