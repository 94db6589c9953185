// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Takes the names that an issuer has for a user, the best one first, and the names that are taken.
package typealias NameAccount = @Sendable (_ wished: [String], _ taken: [String]) -> String?

/// Values that are the same for all accounts. They are constant from the start of the relay, except what the relay can wake.
final class RelayRules: Sendable {
    let relay: RelayID
    let limits: Limits
    let admission: CommandAdmission
    /// Milliseconds since 1970.
    let startTime: Int64
    /// The ports for plain tunnel connections.
    let tunnelPorts: [Int]
    /// Whether an issuer has logins to end when an endpoint is revoked.
    let hasLogins: Bool
    /// Chooses the name of a new account from what its issuer calls the user and the names that are taken; `nil` for none.
    let nameAccount: NameAccount
    let wakeable: WakeableApps
    /// Grows with every change of `wakeable`.
    let version: Int

    init(
        relay: RelayID,
        limits: Limits,
        databaseBegan: Int64,
        startTime: Int64,
        tunnelPorts: [Int] = [],
        hasLogins: Bool = false,
        nameAccount: @escaping NameAccount = { _, _ in nil },
        wakeable: WakeableApps = WakeableApps(),
        version: Int = 0
    ) {
        self.relay = relay
        self.limits = limits
        self.admission = CommandAdmission(limits: limits, databaseBegan: databaseBegan)
        self.startTime = startTime
        self.tunnelPorts = tunnelPorts
        self.hasLogins = hasLogins
        self.nameAccount = nameAccount
        self.wakeable = wakeable
        self.version = version
    }

    func changed(_ wakeable: WakeableApps, version: Int) -> RelayRules {
        RelayRules(
            relay: relay,
            limits: limits,
            databaseBegan: admission.databaseBegan,
            startTime: startTime,
            tunnelPorts: tunnelPorts,
            hasLogins: hasLogins,
            nameAccount: nameAccount,
            wakeable: wakeable,
            version: version
        )
    }
}

/// The constant part of an open control channel. A class, because it is looked up for every message and copies would cost.
final class AccountChannel: Sendable {
    let id: ChannelID
    let account: AccountID
    let endpoint: EndpointID
    let identityKey: SigningPublicKey
    /// Of the channel's tokens.
    let identity: Identity
    let role: EndpointMessage.Hello.Role
    let instance: Blob<BlobKinds.Instance>
    /// The digests of the registrations that were stored when the channel opened.
    let verifiedRegistrations: [Digest256]

    init(_ id: ChannelID, _ hello: ProvedHello, in account: AccountID, registrations: [Digest256]) {
        self.id = id
        self.account = account
        endpoint = hello.record.payload.endpointID
        identityKey = hello.record.payload.identityKey
        identity = hello.identity
        role = hello.role
        instance = hello.instance
        verifiedRegistrations = registrations
    }
}

/// One transaction over an account's rows, and its completion after commit or failure.
struct AccountWork: Sendable {
    /// The channel that requested it.
    let channel: ChannelID?
    /// The size of the request that is kept until then.
    let bytes: Int
    /// Returns the error, if any. May run again after its writes were rolled back.
    let run: @Sendable (any StoreTransaction, _ now: Int64) -> (any Error)?
    /// Takes the error if the commit is not known to be on disk.
    /// - Returns: the error of the store, if it failed.
    let complete: @Sendable (inout AccountRelay, StoreError?) -> StoreError?

    init<Value: Sendable>(
        on channel: ChannelID?,
        bytes: Int,
        _ body: @escaping @Sendable (any AccountTransaction, _ now: Int64) throws -> Value,
        then completion: @escaping @Sendable (inout AccountRelay, Result<Value, any Error>) -> Void
    ) {
        self.channel = channel
        self.bytes = bytes
        // The result waits for the commit; only the store accesses it until then.
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
