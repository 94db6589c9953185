// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Everything the relay must not forget. A transaction is one closure over rows. The transactions of one account run one after another, in
/// the order in which they were submitted, and several may be committed together. Accounts are served in rotation.
package protocol RelayStore: Sendable {
    /// Runs the work and makes what it wrote durable. Never blocks, so event loops may call it. Work that fails undoes its own writes
    /// only. It may be run more than once, all that it has written before being undone. It is told once, after the commit is on disk or
    /// has failed, from any thread but never from within `submit`. The work of one account is told in the order of submission; between
    /// accounts no order is promised.
    func submit(_ work: StoreWork)

    /// Whether more of what a channel asks for may be submitted. If not, the waiter is told once when it may: too much of the channel's or
    /// the account's work is not done yet. So an account delays itself only.
    func hasRoom(for channel: ChannelID, of account: AccountID, waiter: any ControlPeer) -> Bool
}

/// One submitted transaction. Two closures made where the type of the result is known, and no generic class: nothing has to be looked up
/// while they run.
package struct StoreWork: Sendable {
    /// Whose work it is; `nil` for the relay's own.
    let account: AccountID?
    /// The channel that asked for it, which is not read while too much of its work waits.
    let channel: ChannelID?
    /// What it counts then.
    let cost: Int
    /// Returns why it failed.
    let run: @Sendable (any StoreTransaction) -> (any Error)?
    /// Told why its commit is not known to be on disk: what was written may be there or not.
    let report: @Sendable (StoreError?) -> Void

    init(
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

    /// - Parameter completion: Told what the body returned or threw, or `StoreError.unavailable`.
    @inline(__always)
    init<Value: Sendable>(
        for account: AccountID?,
        _ body: @escaping @Sendable (any StoreTransaction) throws -> Value,
        completion: @escaping @Sendable (Result<Value, any Error>) -> Void
    ) {
        // The result waits for the commit; nobody but the store touches it meanwhile.
        nonisolated(unsafe) var result: Result<Value, any Error> = .failure(StoreError.unavailable("it was not tried"))
        self.init(account: account) { transaction in
            do {
                result = .success(try body(transaction))
                return nil
            } catch {
                let failure = transaction.failure(error)
                result = .failure(failure)
                return failure
            }
        } report: { failure in
            completion(failure.map { .failure($0) } ?? result)
        }
    }
}

extension RelayStore {
    @inline(__always)
    package func submit<Value: Sendable>(
        for account: AccountID?,
        _ body: @escaping @Sendable (any StoreTransaction) throws -> Value,
        completion: @escaping @Sendable (Result<Value, any Error>) -> Void
    ) {
        submit(StoreWork(for: account, body, completion: completion))
    }

    /// `submit` for those who can wait.
    package func transact<Value: Sendable>(
        for account: AccountID? = nil,
        _ body: @escaping @Sendable (any StoreTransaction) throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            submit(for: account, body) { continuation.resume(with: $0) }
        }
    }
}

/// Why a store does not work. The text says what to do.
package enum StoreError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The directory cannot be made or written to.
    case directoryNotWritable(String)
    /// There is a file in the database's place that is none, or that is damaged.
    case notADatabase(String)
    /// The database was written by a newer version.
    case tooNew(String)
    /// Another relay is running on the directory.
    case inUse(String)
    /// Nothing can be read or written now: the disk is full, or fails.
    case unavailable(String)

    package var description: String {
        switch self {
        case .directoryNotWritable(let path): "\(path) cannot be written to: check that it exists and belongs to the relay's user"
        case .notADatabase(let path): "\(path) is not a relay's database, or is damaged: restore it from a backup, or move it away"
        case .tooNew(let path): "\(path) was written by a newer version of the relay: run that version"
        case .inUse(let path): "another relay uses \(path): stop it first, or choose another directory"
        case .unavailable(let reason): "the database cannot be written now: \(reason)"
        }
    }
}
