// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What holds for all accounts of a relay from its start on.
final class RelayRules: Sendable {
    let relay: RelayID
    let limits: Limits
    let admission: CommandAdmission
    /// Milliseconds since 1970.
    let startTime: Int64
    /// Where plain tunnel connections are taken.
    let tunnelPorts: [Int]
    /// Whether an issuer has logins to end when an endpoint is revoked.
    let hasLogins: Bool

    init(relay: RelayID, limits: Limits, databaseBegan: Int64, startTime: Int64, tunnelPorts: [Int] = [], hasLogins: Bool = false) {
        self.relay = relay
        self.limits = limits
        self.admission = CommandAdmission(limits: limits, databaseBegan: databaseBegan)
        self.startTime = startTime
        self.tunnelPorts = tunnelPorts
        self.hasLogins = hasLogins
    }
}

/// What does not change of an open control channel. Looked up for every message, so it is not copied.
final class AccountChannel: Sendable {
    let id: ChannelID
    let account: AccountID
    let endpoint: EndpointID
    let identityKey: SigningPublicKey
    let role: EndpointMessage.Hello.Role
    let instance: Blob<BlobKinds.Instance>
    /// The digests of the registrations that were stored when the channel opened.
    let verifiedRegistrations: [Digest256]

    init(_ id: ChannelID, _ hello: ProvedHello, in account: AccountID, registrations: [Digest256]) {
        self.id = id
        self.account = account
        endpoint = hello.record.payload.endpointID
        identityKey = hello.record.payload.identityKey
        role = hello.role
        instance = hello.instance
        verifiedRegistrations = registrations
    }
}

/// One transaction over an account's rows, and what becomes of the account when it is committed or has failed.
struct AccountWork: Sendable {
    /// The channel that asked for it.
    let channel: ChannelID?
    /// How much of its request is kept meanwhile.
    let bytes: Int
    /// Returns why it failed. May run again after what it wrote was undone.
    let run: @Sendable (any StoreTransaction, _ now: Int64) -> (any Error)?
    /// Takes why the commit is not known to be on disk.
    /// - Returns: why the store failed, if it did.
    let complete: @Sendable (inout AccountRelay, StoreError?) -> StoreError?

    init<Value: Sendable>(
        on channel: ChannelID?,
        bytes: Int,
        _ body: @escaping @Sendable (any StoreTransaction, _ now: Int64) throws -> Value,
        then completion: @escaping @Sendable (inout AccountRelay, Result<Value, any Error>) -> Void
    ) {
        self.channel = channel
        self.bytes = bytes
        // The result waits for the commit; nobody but the store touches it meanwhile.
        nonisolated(unsafe) var result: Result<Value, any Error> = .failure(StoreError.unavailable("it was not tried"))
        run = { transaction, now in
            do {
                result = .success(try body(transaction, now))
                return nil
            } catch {
                let failure = transaction.failure(error)
                result = .failure(failure)
                return failure
            }
        }
        complete = { relay, failure in
            let outcome: Result<Value, any Error> = failure.map { .failure($0) } ?? result
            completion(&relay, outcome)
            if case .failure(let error as StoreError) = outcome { return error }
            return nil
        }
    }
}
