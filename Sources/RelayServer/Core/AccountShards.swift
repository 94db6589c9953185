// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import RelayProtocol
import Synchronization

/// The accounts of a relay, spread over locks. An account's channels are named so that they lead to its shard.
final class AccountShards: Sendable {
    private static let count: UInt64 = 16

    final class Shard: Sendable {
        let number: UInt64
        let state = Mutex(State())
        /// Goes on with a delivery that has no end.
        let delivery = DispatchQueue(label: "relay.delivery")

        init(_ number: UInt64) { self.number = number }
    }

    struct Open: Sendable {
        let channel: AccountChannel
        let peer: any ControlPeer
    }

    /// A hello that is not answered yet.
    struct Arrival: Sendable {
        let peer: any ControlPeer
        let completion: @Sendable (Result<ChannelID, RelayMessage.Rejected>) -> Void
    }

    enum Outgoing: Sendable {
        case send(any ControlPeer, RelayMessage)
        case close(any ControlPeer, code: UInt16, reason: String)
        case call(@Sendable () -> Void)
    }

    struct State: Sendable {
        /// `nil` before the start.
        var rules: RelayRules?
        var isStopping = false
        /// Those that have something in memory.
        var accounts: [AccountID: AccountRelay] = [:]
        var channels: [ChannelID: Open] = [:]
        var arriving: [ChannelID: Arrival] = [:]
        var lastChannel: UInt64 = 0
        /// What is to be said, in order.
        var outgoing: [Outgoing] = []
        var isDelivering = false
    }

    let all = (0..<AccountShards.count).map { Shard($0) }

    subscript(account: AccountID) -> Shard {
        all[Int(UInt64(truncatingIfNeeded: account.hashValue) % Self.count)]
    }

    subscript(channel: ChannelID) -> Shard { all[Int(channel.rawValue % Self.count)] }

    func nextChannel(in shard: Shard, _ state: inout State) -> ChannelID {
        state.lastChannel += 1
        return ChannelID(state.lastChannel * Self.count + shard.number)
    }
}
