// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import RelayCollections
import RelayProtocol
import Synchronization

/// The accounts of a relay, spread over several locks. A channel id leads to the shard of its account.
final class AccountShards: Sendable {
    private static let count: UInt64 = 16

    final class Shard: Sendable {
        let number: UInt64
        let state = Mutex(State())
        /// Continues a delivery that has become too long for the calling thread.
        let delivery = DispatchQueue(label: "relay.delivery")
        /// Verifies the records of hellos. Each connection has one hello, so the connections bound what waits.
        let verification = DispatchQueue(label: "relay.verification")

        init(_ number: UInt64) { self.number = number }
    }

    /// A class, because it is looked up for every message and copies would cost.
    final class Open: Sendable {
        let channel: AccountChannel
        let peer: any ControlPeer

        init(_ channel: AccountChannel, _ peer: any ControlPeer) {
            self.channel = channel
            self.peer = peer
        }
    }

    /// A hello that is not answered yet.
    struct Arrival: Sendable {
        let peer: any ControlPeer
        let completion: @Sendable (Result<AcceptedChannel, RelayMessage.Rejected>) -> Void
    }

    enum Outgoing: Sendable {
        case send(any ControlPeer, RelayMessage, whenWritten: (@Sendable () -> Void)?)
        case close(any ControlPeer, code: UInt16, reason: String)
        case call(@Sendable () -> Void)
    }

    struct State: Sendable {
        /// `nil` before the start.
        var rules: RelayRules?
        /// When the relay has started.
        var started: Milliseconds = 0
        /// The accounts that this node serves, and since when; `nil` if it is the only one, and serves all.
        var served: [AccountID: Milliseconds]?
        var isStopping = false
        /// Only accounts with state in memory.
        var accounts: [AccountID: AccountRelay] = [:]
        var channels: [ChannelID: Open] = [:]
        var arriving: [ChannelID: Arrival] = [:]
        var lastChannel: UInt64 = 0
        /// Requests of others than the endpoints that are not answered yet.
        var requests: [UInt64: @Sendable (Result<AccountAnswer, StoreError>) -> Void] = [:]
        private var lastRequest: UInt64 = 0
        /// Messages and calls to deliver, in order.
        var outgoing: [Outgoing] = []
        var isDelivering = false
        /// When accounts have something to do. An account may have ended since.
        var deadlines = TimerHeap<Milliseconds, AccountID>()

        mutating func add(request answer: @escaping @Sendable (Result<AccountAnswer, StoreError>) -> Void) -> UInt64 {
            lastRequest += 1
            requests[lastRequest] = answer
            return lastRequest
        }
    }

    let all = (0..<AccountShards.count).map { Shard($0) }

    subscript(account: AccountID) -> Shard { all[account.shard(of: all.count)] }

    subscript(channel: ChannelID) -> Shard { all[Int(channel.rawValue % Self.count)] }

    func nextChannel(in shard: Shard, _ state: inout State) -> ChannelID {
        state.lastChannel += 1
        return ChannelID(state.lastChannel * Self.count + shard.number)
    }
}
