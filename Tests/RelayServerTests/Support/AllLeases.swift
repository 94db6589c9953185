// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import RelayProtocol
import Synchronization

@testable import RelayServer

/// The leases of a node that has all of them, with a beat that is old when the test says so.
final class AllLeases: AccountLeases {
    private let isYoung = Atomic(true)
    private let returned = Mutex<[AccountID]>([])

    func set(isYoung: Bool) { self.isYoung.store(isYoung, ordering: .relaxed) }

    /// The accounts that were given back.
    var givenBack: [AccountID] { returned.withLock { $0 } }

    var hasYoungBeat: Bool { isYoung.load(ordering: .relaxed) }
    let nodeID = NodeID()
    var obstacle: String? { nil }
    var scope: AccountScope { .all }

    func claim(_ account: ClaimedAccount, answer: @escaping @Sendable (AccountClaim) -> Void) {
        DispatchQueue.global().async { answer(.here(account.likely, since: 0)) }
    }
    func giveBack(_ account: AccountID) { returned.withLock { $0.append(account) } }
    func giveBackAll() async {}
    func begin(_ report: @escaping @Sendable (LeaseEvent) -> Void) {}
}
