// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// Who serves which account, where several nodes share a store. One node at a time holds an account's lease, and only that node reads and
/// writes its rows.
package protocol AccountLeases: Sendable {
    /// Takes the lease of an account, unless another live node has it. Answers once, from any thread, but never within the call. The answer
    /// comes in order with the reports of the account's work, and with the losses of its lease.
    func claim(_ account: ClaimedAccount, answer: @escaping @Sendable (AccountClaim) -> Void)

    /// Gives the lease of an account back, after its work so far. Then it counts as lost.
    func giveBack(_ account: AccountID)

    /// Gives all leases back, and takes no more.
    func giveBackAll() async

    /// This start of the node.
    var nodeID: NodeID { get }

    /// Why this node admits nobody now, as text; `nil` if it does.
    var obstacle: String? { get }

    /// Whether no other node can have found this one dead yet. A node without says nothing of what is in no transaction, because another one
    /// may soon serve its accounts.
    var hasYoungBeat: Bool { get }

    /// The accounts whose due rows this node works on now.
    var scope: AccountScope { get }

    /// - Parameter report: Is called for each event.
    func begin(_ report: @escaping @Sendable (LeaseEvent) -> Void)
}

package enum LeaseEvent: Hashable, Sendable {
    /// This node has lost the lease of an account. Later work of that account fails.
    case lost(AccountID)
    /// Another node is dead, or takes no accounts any more.
    case nodeLeft
    /// The others have found this node dead, or the database does not know it. It goes on as another one, without accounts.
    case becameAnother
    /// The node is of no use to its endpoints, which are better off elsewhere.
    case cutOff(CutOff)
    /// Why this node takes no accounts from now on, as text; `nil` if it takes some again.
    case suspended(String?)
    /// The other nodes serve fewer accounts. So many are to be given back.
    case hasTooMany(Int)
    /// The store is complete only since this time.
    case databaseBegan(Milliseconds)
}

/// Why a node is of no use to its endpoints.
package enum CutOff: Hashable, Sendable {
    /// It has been without its database for long, or its clock is very wrong.
    case forLong
    /// It does not reach its database, and another node does.
    case alone
}

/// The account that is meant.
package enum ClaimedAccount: Hashable, Sendable {
    /// The account of an identity, also one that does not exist yet.
    case of(Identity)
    case known(AccountID)

    /// The account, unless the identity was linked to another one.
    package var likely: AccountID {
        switch self {
        case .of(let identity): AccountID(of: identity)
        case .known(let account): account
        }
    }
}

package enum AccountClaim: Hashable, Sendable {
    /// This node serves the account.
    /// - since: When the node has taken the lease.
    case here(AccountID, since: Milliseconds)
    /// Another node serves the account.
    /// - url: Where endpoints reach that node; `nil` if it says nothing.
    case elsewhere(AccountID, Origin?)
    /// Nobody can serve the account now.
    case nowhere(retryAfter: Milliseconds)
}
