// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import Synchronization
import Testing

@testable import RelayServer

/// A core over a real store, with a clock that is set by hand.
final class CoreWorld: Sendable {
    let store: TestStore
    let relay = RelayID(P256SigningKey().publicKey)
    let clock: TestClock
    let limits: Limits
    private let logins: (any LoginEnding)?
    private let wakes: (any WakeSender)?
    private let leases: (any AccountLeases)?
    private let current: Mutex<RelayCore>
    private let ids = Mutex(CommandIDGenerator())

    final class TestClock: Sendable {
        private let time = Mutex<Int64>(1_800_000_000_000)
        var now: Int64 { time.withLock { $0 } }
        func pass(_ milliseconds: Int64) { time.withLock { $0 += milliseconds } }
    }

    /// - Parameters:
    ///   - age: of the database when the world begins.
    ///   - leases: Those of a node of several; `nil` if the relay has one node.
    ///   - store: Default: SQLite's.
    init(
        limits: Limits = Limits(),
        age: Int64 = 100 * 86_400_000,
        logins: (any LoginEnding)? = nil,
        wakes: (any WakeSender)? = nil,
        leases: (any AccountLeases)? = nil,
        store: (any RelayStore)? = nil
    ) async throws {
        let store = TestStore(try store ?? SQLiteStore())
        self.store = store
        self.clock = TestClock()
        self.limits = limits
        self.logins = logins
        self.wakes = wakes
        self.leases = leases
        let clock = clock
        self.current = Mutex(Self.core(store, relay, limits, clock, logins, wakes, leases))
        let began = clock.now - age
        try await store.transact { try $0.setDatabaseBegan(began) }
        try await core.start()
    }

    var core: RelayCore { current.withLock { $0 } }

    private static func core(
        _ store: TestStore,
        _ relay: RelayID,
        _ limits: Limits,
        _ clock: TestClock,
        _ logins: (any LoginEnding)?,
        _ wakes: (any WakeSender)?,
        _ leases: (any AccountLeases)?
    ) -> RelayCore {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return RelayCore(
            store: store,
            leases: leases,
            relay: relay,
            limits: limits,
            now: { Milliseconds(clamping: clock.now) },
            logger: logger,
            logins: logins,
            wakes: wakes
        )
    }

    /// The relay's process ends and begins anew. Peers of the old one hear nothing more.
    func restart() async throws {
        let core = Self.core(store, relay, limits, clock, logins, wakes, leases)
        current.withLock { $0 = core }
        try await core.start()
    }

    /// Lets time pass, and the relay notice it.
    func pass(_ milliseconds: Int64) async throws {
        clock.pass(milliseconds)
        core.handleDeadlines()
        try await settle()
    }

    /// Waits until everything that was submitted, and what came of it, is done.
    func settle() async throws {
        while true {
            let isDone = store.isDone
            try await store.base.transact { _ in }
            if isDone, store.isDone { return }
        }
    }

    func connect(
        _ hello: ProvedHello,
        peer: TestPeer = TestPeer()
    ) async throws -> Result<Session, RelayMessage.Rejected> {
        let result: Result<AcceptedChannel, RelayMessage.Rejected> = await withCheckedContinuation { continuation in
            core.connect(hello, peer: peer) { continuation.resume(returning: $0) }
        }
        try await settle()
        return result.map {
            Session(
                world: self,
                channel: $0.id,
                accountName: $0.accountName,
                limits: $0.limits ?? limits,
                peer: peer,
                account: hello.record.payload.account
            )
        }
    }

    /// Finds out the account, as an endpoint does that is new.
    func account(of device: TestDevice) async throws -> String {
        guard case .failure(let rejected) = try await connect(device.hello("?")), rejected.code == .wrongAccount else {
            throw TestError("the account was not named")
        }
        return try #require(rejected.account)
    }

    func open(
        _ device: TestDevice,
        role: EndpointMessage.Hello.Role = .host,
        version: UInt64 = 1,
        peer: TestPeer = TestPeer()
    ) async throws -> Session {
        let account = try await account(of: device)
        return try await connect(device.hello(account, role: role, version: version), peer: peer).get()
    }

    func command(
        from sender: TestDevice,
        to target: TestDevice,
        number: UInt64 = 1,
        life: Int64 = 300_000,
        app: String = "player",
        account: String? = nil,
        padding: Int = 0,
        kind: CommandHeader.Kind = .message,
        senderApp: String? = nil
    ) async throws -> SealedCommand {
        let known: String
        if let account { known = account } else { known = try await self.account(of: sender) }
        var random = SystemRandomNumberGenerator()
        let now = clock.now
        let id = ids.withLock { $0.next(now: UInt64(now), using: &random) }
        let header = CommandHeader(
            id: id,
            account: known,
            relay: relay,
            sender: sender.id,
            target: target.id,
            senderApp: senderApp,
            targetApp: app,
            keyID: target.agreementKey.publicKey.keyID,
            kind: kind,
            number: number,
            created: now,
            expires: now + life
        )
        let body: CommandBody =
            switch kind {
            case .launch: .launch(.init(uri: try LaunchURI("https://films.example")))
            case .message: .message(service: "a", ["b": .data(Array(repeating: 0, count: padding))])
            }
        return try SealedCommand(body, header: header, target: target.agreementKey.publicKey, key: sender.identityKey)
    }

    func receipt(of command: SealedCommand, by target: TestDevice, _ outcome: CommandOutcome = .succeeded) throws -> Blob<BlobKinds.Receipt>
    {
        Blob(try Signed(CommandReceipt(for: command.descriptor, outcome: outcome, time: clock.now), key: target.identityKey).encoded)
    }

    /// What is stored of a command.
    func row(_ command: SealedCommand) async throws -> MailboxCommand? {
        let key = StoredCommandKey(account: AccountID(command.header.account), command: command.descriptor.key)
        return try await store.base.transact { try $0.command(key) }
    }
}

struct TestError: Error {
    let text: String
    init(_ text: String) { self.text = text }
}

/// One channel of an endpoint.
struct Session: Sendable {
    let world: CoreWorld
    let channel: ChannelID
    let accountName: String?
    /// Those in `welcome`.
    let limits: Limits
    let peer: TestPeer
    let account: String

    /// The messages that the relay sends after this message.
    @discardableResult
    func send(_ message: EndpointMessage) async throws -> [RelayMessage] {
        _ = world.core.receive(message, on: channel)
        return try await receive()
    }

    func receive() async throws -> [RelayMessage] {
        try await world.settle()
        return peer.take()
    }

    func disconnect(isSilent: Bool = false) async throws {
        world.core.disconnected(channel, isSilent: isSilent)
        try await world.settle()
    }

    @discardableResult
    func send(_ command: SealedCommand, again: Bool = false, ref: Int64 = 1) async throws -> [RelayMessage] {
        try await send(.commandSend(.init(ref: testRef(ref), command: Blob(command.encoded), again: again)))
    }
}

func testRef(_ number: Int64 = 1) -> RequestRef { RequestRef(number) ?? .first }

extension RelayMessage {
    var failure: RelayMessage.Failure? { if case .failure(let failure) = self { failure } else { nil } }
    var okState: RelayMessage.CommandStatus.State? { if case .ok(let ok) = self { ok.result?.state } else { nil } }
    var isOK: Bool { if case .ok = self { true } else { false } }
    var offered: [UInt8]? { if case .command(let command) = self { command.command.bytes } else { nil } }
    var status: RelayMessage.CommandStatus.Status? { if case .commandStatus(let status) = self { status.status } else { nil } }
    var presence: Presence? {
        switch self {
        case .endpointAdded(let event): event.presence
        case .endpointUpdated(let event): event.presence
        default: nil
        }
    }
}
