// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch

/// A thread of a store. Work that is submitted during a commit shares the next commit: a disk flushes some hundred times per second, and a
/// relay must answer more often.
package final class StoreThread: Sendable {
    private let largestGroup: Int
    private let metrics: StoreMetrics
    private let queues = AccountQueues()
    private let thread: DispatchQueue

    /// - Parameter largestGroup: The maximum size of a group. A larger group would only delay its first item.
    package init(_ label: String, largestGroup: Int, metrics: StoreMetrics) {
        self.largestGroup = largestGroup
        self.metrics = metrics
        thread = DispatchQueue(label: label)
    }

    /// What became of a group.
    package struct Outcome {
        /// The error, if it is not stored.
        package var failure: StoreError?
        /// The accounts that another node serves. Their work is not stored.
        package var lost: Set<AccountID>

        package init(_ failure: StoreError? = nil, lost: Set<AccountID> = []) { (self.failure, self.lost) = (failure, lost) }

        fileprivate func failure(of work: StoreWork) -> StoreError? {
            guard !lost.isEmpty, let account = work.account, lost.contains(account) else { return failure }
            return .leaseLost
        }
    }

    /// - Parameter commit: Commits a group, with work that joins it.
    package func submit(_ work: StoreWork, commit: @escaping @Sendable (inout [StoreWork]) -> Outcome) {
        if queues.append(work) { thread.async { self.work(commit) } }
    }

    /// Runs something between two groups.
    package func async(_ body: @escaping @Sendable () -> Void) { thread.async(execute: body) }

    package func hasRoom(for channel: ChannelID, of account: AccountID, waiter: any ControlPeer) -> Bool {
        queues.hasRoom(for: channel, of: account, waiter: waiter)
    }

    /// Adds work to a group that has begun. Called in `commit`.
    /// - Returns: How much was added.
    package func join(_ group: inout [StoreWork]) -> Int {
        let others = queues.take(largestGroup - group.count)
        group += others
        return others.count
    }

    /// Waits for submitted work.
    package func sync<Value>(_ body: () throws -> Value) rethrows -> Value { try thread.sync(execute: body) }

    /// How many groups are committed before the thread does something else that waits for it.
    private static let groupsAtOnce = 32

    private func work(_ commit: @escaping @Sendable (inout [StoreWork]) -> Outcome) {
        for _ in 0..<Self.groupsAtOnce {
            var group = queues.next(largestGroup)
            if group.isEmpty { return }
            let begun = ContinuousClock.now
            let outcome = commit(&group)
            metrics.committed(group.count, in: ContinuousClock.now - begun, isStored: outcome.failure == nil)
            for work in group { work.report(outcome.failure(of: work)) }
            queues.done(group)
        }
        thread.async { self.work(commit) }
    }
}
