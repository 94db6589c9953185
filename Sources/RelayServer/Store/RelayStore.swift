// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The relay's durable state. A transaction is one closure over rows. The transactions of one account run in the order of submission, and
/// several may share one commit. Accounts are served in rotation.
package protocol RelayStore: Sendable {
    /// Runs the work and makes its writes durable. Never blocks, so event loops may call it. A failure rolls back the writes of that work
    /// only. The work may run more than once, after a rollback of all its writes. Its `report` is called once, after the commit is on
    /// disk or has failed, from any thread but never within `submit`. Reports of one account come in the order of submission; between
    /// accounts there is no order.
    ///
    /// After a failure, later work does not see the writes. Only a restart of the relay may reveal them, because a disk can have written what
    /// it could not flush. A store behind a network has to find out what became of a commit before it reports.
    func submit(_ work: StoreWork)

    /// Whether a channel may submit more work. If not, the waiter is resumed once: too much work of the channel or of its account is
    /// pending. So an account delays only itself.
    func hasRoom(for channel: ChannelID, of account: AccountID, waiter: any ControlPeer) -> Bool
}

/// One submitted transaction. The two closures are created where the result type is known, so running them needs no metadata lookup. A
/// class, because work passes several queues and copies would cost.
package final class StoreWork: Sendable {
    /// The account; `nil` for work of the relay itself.
    package let account: AccountID?
    /// The channel that requested it. The relay stops reading from it while too much of its work is pending.
    let channel: ChannelID?
    /// The weight of the work in that sum.
    let cost: Int
    /// Returns the error, if any.
    package let run: @Sendable (any StoreTransaction) -> (any Error)?
    /// Receives an error if the commit has failed.
    let report: @Sendable (StoreError?) -> Void

    package init(
        account: AccountID?,
        channel: ChannelID? = nil,
        cost: Int = 1,
        run: @escaping @Sendable (any StoreTransaction) -> (any Error)?,
        report: @escaping @Sendable (StoreError?) -> Void
    ) {
        self.account = account
        self.channel = channel
        self.cost = cost
        self.run = run
        self.report = report
    }

    /// - Parameter completion: receives the result of the body, or `StoreError.unavailable`.
    @inline(__always)
    convenience init<Value: Sendable>(
        for account: AccountID?,
        _ body: @escaping @Sendable (any StoreTransaction) throws -> Value,
        completion: @escaping @Sendable (Result<Value, any Error>) -> Void
    ) {
        let result = PendingResult<Value>()
        self.init(account: account, run: { result.run(body, in: $0) }, report: { completion(result.get(unless: $0)) })
    }
}

/// The result of a transaction, which waits for the commit. Only the store accesses it until then.
final class PendingResult<Value: Sendable>: Sendable {
    private nonisolated(unsafe) var result: Result<Value, any Error> = .failure(StoreError.unavailable("it was not tried"))

    /// - Returns: the error, if any.
    @inline(__always)
    func run(_ body: (any StoreTransaction) throws -> Value, in transaction: any StoreTransaction) -> (any Error)? {
        do {
            result = .success(try body(transaction))
            return nil
        } catch {
            let failure = transaction.failure(error)
            result = .failure(failure)
            return failure
        }
    }

    /// - Parameter failure: set if the commit is not known to be on disk.
    @inline(__always)
    func get(unless failure: StoreError?) -> Result<Value, any Error> { failure.map { .failure($0) } ?? result }
}

extension RelayStore {
    @inline(__always)
    func submit<Value: Sendable>(
        for account: AccountID?,
        _ body: @escaping @Sendable (any StoreTransaction) throws -> Value,
        completion: @escaping @Sendable (Result<Value, any Error>) -> Void
    ) {
        submit(StoreWork(for: account, body, completion: completion))
    }

    /// Runs a transaction over the rows of one account.
    package func transact<Value: Sendable>(
        for account: AccountID,
        _ body: @escaping @Sendable (any AccountTransaction) throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            submit(for: account, { try body($0) }, completion: { continuation.resume(with: $0) })
        }
    }

    /// Reads rows of accounts, in no order with their work, and also where another node serves them.
    package func read<Value: Sendable>(_ body: @escaping @Sendable (any AccountTransaction) throws -> Value) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            submit(for: nil, { try body($0) }, completion: { continuation.resume(with: $0) })
        }
    }

    /// Runs a transaction of the relay itself.
    package func transactGlobally<Value: Sendable>(
        _ body: @escaping @Sendable (any GlobalTransaction) throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            submit(for: nil, { try body($0) }, completion: { continuation.resume(with: $0) })
        }
    }
}

/// Why a store does not work. The description contains advice.
package enum StoreError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The directory cannot be created or written to.
    case directoryNotWritable(String)
    /// The database file is damaged or not a database.
    case notADatabase(String)
    /// The database was written by a newer version.
    case tooNew(String)
    /// Another relay uses the directory.
    case inUse(String)
    /// The database is another relay's.
    case ofOtherRelay(String, own: String)
    /// Nothing can be read or written now: the disk is full, or fails.
    case unavailable(String)
    /// Another node is to do it, and has not yet. It does so when it can.
    case left
    /// Another node serves the account, or nobody does. Nothing was stored.
    case leaseLost

    package var description: String {
        switch self {
        case .directoryNotWritable(let path): "\(path) cannot be written to: check that it exists and belongs to the relay's user"
        case .notADatabase(let path): "\(path) is not a relay's database, or is damaged: restore it from a backup, or move it away"
        case .tooNew(let path): "\(path) was written by a newer version of the relay: run that version, or restore a backup of this one"
        case .inUse(let path): "another relay uses \(path): stop it first, or choose another directory"
        case .unavailable(let reason): "the database cannot be written now: \(reason)"
        case .ofOtherRelay(let other, let own):
            "the database belongs to relay \(other), and the key here is that of \(own): copy relay.key and issuer.key from a node of that relay"
        case .left:
            "it is accepted and not done yet: the account's node does it within some seconds, or the next one that serves the account"
        case .leaseLost: "another node of the relay serves the account: try again"
        }
    }
}
