// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

@testable import RelayServer

/// A store that counts the submitted works, and fails as configured.
final class TestStore: RelayStore {
    enum Fault: Sendable {
        /// Nothing is written.
        case before
        /// All is written, but an error is reported: a commit whose answer was lost.
        case after
    }

    private struct State {
        var submitted = 0
        var done = 0
        var mostWaiting = 0
        var faults: [Int: Fault] = [:]
        var failsAlways = false
    }

    /// For the test itself: neither counted nor failed.
    let base: any RelayStore
    private let state = Mutex(State())

    init(_ store: any RelayStore) { self.base = store }

    var submitted: Int { state.withLock { $0.submitted } }
    /// How many were submitted and not done, at the worst moment.
    var mostWaiting: Int { state.withLock { $0.mostWaiting } }
    func forgetMostWaiting() { state.withLock { $0.mostWaiting = 0 } }
    var isDone: Bool { state.withLock { $0.done == $0.submitted } }

    /// Fails the transaction that is submitted after so many more.
    func fail(after count: Int, _ fault: Fault) { state.withLock { $0.faults[$0.submitted + count] = fault } }

    func failAlways(_ fails: Bool) { state.withLock { $0.failsAlways = fails } }

    func hasRoom(for channel: ChannelID, of account: AccountID, waiter: any ControlPeer) -> Bool {
        base.hasRoom(for: channel, of: account, waiter: waiter)
    }

    func submit(_ work: StoreWork) {
        let report: @Sendable (StoreWork, StoreError?) -> Void = { [self] work, error in
            work.report(error)
            state.withLock { $0.done += 1 }
        }
        let fault: Fault? = state.withLock { state in
            defer {
                state.submitted += 1
                state.mostWaiting = max(state.mostWaiting, state.submitted - state.done)
            }
            return state.failsAlways ? .before : state.faults.removeValue(forKey: state.submitted)
        }
        func submit(_ run: @escaping @Sendable (any StoreTransaction) -> (any Error)?, failing: StoreError?) {
            base.submit(
                StoreWork(account: work.account, channel: work.channel, cost: work.cost, run: run) { report(work, failing ?? $0) }
            )
        }
        switch fault {
        case nil: submit(work.run, failing: nil)
        case .before: submit({ _ in nil }, failing: .unavailable("test"))
        case .after: submit(work.run, failing: .unavailable("test"))
        }
    }
}

extension StoreTransaction {
    /// For any account.
    func endpoint(_ id: EndpointID) throws -> EndpointRow? { try account(ofEndpoint: id).flatMap { try endpoint(id, of: $0) } }
}

extension RelayStore {
    /// Runs a transaction over all rows.
    func transact<Value: Sendable>(_ body: @escaping @Sendable (any StoreTransaction) throws -> Value) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            submit(for: nil, body) { continuation.resume(with: $0) }
        }
    }
}

extension RelayCore {
    /// Those that have something in memory, as they are now.
    var accounts: [AccountRelay] { shards.all.flatMap { $0.state.withLock { Array($0.accounts.values) } } }

    var channelCount: Int { shards.all.reduce(0) { $0 + $1.state.withLock { $0.channels.count } } }
}

/// Remembers what was said on a channel.
final class TestPeer: ControlPeer {
    private struct State {
        var messages: [RelayMessage] = []
        var closeCode: UInt16?
        var resumed = 0
        var isReading: Bool
        var unwritten: [@Sendable () -> Void] = []
    }

    private let state: Mutex<State>

    /// - Parameter isReading: Whether each message leaves at once.
    init(isReading: Bool = true) { self.state = Mutex(State(isReading: isReading)) }

    func send(_ message: RelayMessage, whenWritten: (@Sendable () -> Void)?) {
        let isWritten = state.withLock { state in
            // As on a channel that is closed.
            if state.closeCode == nil { state.messages.append(message) }
            if !state.isReading, let whenWritten { state.unwritten.append(whenWritten) }
            return state.isReading
        }
        if isWritten { whenWritten?() }
    }

    /// Lets messages leave, oldest first.
    /// - Parameter count: Default: all, also later ones.
    func read(_ count: Int? = nil) {
        let written = state.withLock { state in
            let written = Array(state.unwritten.prefix(count ?? .max))
            state.unwritten.removeFirst(written.count)
            if count == nil { state.isReading = true }
            return written
        }
        for call in written { call() }
    }

    func resume() { state.withLock { $0.resumed += 1 } }

    /// How often the channel was to be read on.
    var resumed: Int { state.withLock { $0.resumed } }

    func close(code: UInt16, reason: String) { state.withLock { $0.closeCode = $0.closeCode ?? code } }

    var closeCode: UInt16? { state.withLock { $0.closeCode } }

    /// What was said since the last time.
    func take() -> [RelayMessage] {
        state.withLock { state in
            defer { state.messages = [] }
            return state.messages
        }
    }
}

/// An endpoint with its keys, as its SDK would hold it.
struct TestDevice: Sendable {
    let identityKey = P256SigningKey()
    let systemKey: P256SigningKey
    let agreementKey = P256AgreementKey()
    /// Signed once: a version has one content.
    private let records = Cache<EndpointRecord>()
    private let registrations = Cache<AppRegistration>()
    var subject: String
    var name = "Living room"
    /// Of the token that it says hello with.
    var login: Login?
    var inviter: EndpointID?
    var address: String?

    /// - Parameter systemKey: The key of its device. Default: a new key.
    init(subject: String, systemKey: P256SigningKey = P256SigningKey()) {
        self.subject = subject
        self.systemKey = systemKey
    }

    private final class Cache<Payload: SignedPayload>: Sendable {
        private let signed = Mutex<[String: Signed<Payload>]>([:])

        func callAsFunction(_ key: String, _ make: () throws -> Signed<Payload>) rethrows -> Signed<Payload> {
            if let known = signed.withLock({ $0[key] }) { return known }
            let new = try make()
            signed.withLock { $0[key] = new }
            return new
        }
    }

    var id: EndpointID { EndpointID(identityKey.publicKey) }
    var identity: Identity { Identity(issuer: "https://issuer.example", subject: subject) }

    func record(_ account: String, version: UInt64 = 1) throws -> Signed<EndpointRecord> {
        let record = try EndpointRecord(
            version: version,
            account: account,
            identityKey: identityKey.publicKey,
            systemKey: systemKey,
            agreementKey: agreementKey.publicKey,
            name: name,
            kind: "desktop",
            platform: "linux"
        )
        return try records("\(account) \(version) \(name)") { try Signed(record, key: identityKey) }
    }

    func registration(_ account: String, appID: String = "player", version: UInt64 = 1, name: String = "Player") throws
        -> Signed<AppRegistration>
    {
        let registration = AppRegistration(
            version: version,
            account: account,
            endpoint: id,
            appID: appID,
            displayName: name,
            schemes: [.init(name: "https")]
        )
        return try registrations("\(account) \(appID) \(version) \(name)") { try Signed(registration, key: identityKey) }
    }

    /// - Parameter instance: The process. Default: a new process.
    func hello(
        _ account: String,
        role: EndpointMessage.Hello.Role = .host,
        version: UInt64 = 1,
        mayMakeAccount: Bool = true,
        instance: Blob<BlobKinds.Instance> = .random()
    ) throws -> ProvedHello {
        ProvedHello(
            identity: identity,
            mayMakeAccount: mayMakeAccount,
            record: try Unverified(decoding: record(account, version: version).encoded),
            role: role,
            instance: instance,
            tokenExpires: 9_000_000_000_000,
            scopes: Set(RelayScope.allCases),
            login: login,
            inviter: inviter,
            address: address
        )
    }

    /// A request to vouch for a record of another endpoint.
    func approval(
        of other: TestDevice,
        account: String,
        version: UInt64 = 1,
        knowledge: Voucher.VerificationLevel = .verified
    ) throws -> EndpointMessage {
        let voucher = Voucher(by: id, for: try other.record(account, version: version), knowledge: knowledge, time: 1)
        return .endpointApprove(
            .init(ref: testRef(), endpoint: other.id, voucher: Blob(try Signed(voucher, key: identityKey).encoded))
        )
    }

    /// A request to revoke an endpoint.
    func revocation(of endpoint: EndpointID, account: String) throws -> EndpointMessage {
        let revocation = Revocation(of: endpoint, by: id, account: account, time: 1)
        return .endpointRevoke(
            .init(ref: testRef(), endpoint: endpoint, revocation: Blob(try Signed(revocation, key: identityKey).encoded))
        )
    }
}
