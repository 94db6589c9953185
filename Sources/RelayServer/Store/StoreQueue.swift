// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// Work that waits for the store. The work of one account keeps its order; accounts are served in rotation, so that the backlog of one
/// delays the others by its share of a group only.
struct StoreQueue<Work> {
    /// How much work of one account a group takes. A larger share would only make the others wait for it.
    static var share: Int { 32 }

    private var lines: [AccountID?: CircularBuffer<Work>] = [:]
    /// The accounts that have work, the next to be served first.
    private var rotation = CircularBuffer<AccountID?>()

    var isEmpty: Bool { rotation.isEmpty }

    /// - Parameter account: whose work it is; `nil` for the relay's own, which is served like an account's.
    mutating func append(_ work: Work, for account: AccountID?) {
        var line = lines.removeValue(forKey: account) ?? CircularBuffer(initialCapacity: 1)
        if line.isEmpty { rotation.append(account) }
        line.append(work)
        lines[account] = line
    }

    /// The next group of at most so many: one of each account, then the next of each, and so on.
    mutating func take(_ most: Int) -> [Work] {
        var group: [Work] = []
        for _ in 0..<Self.share where group.count < most && !rotation.isEmpty {
            for _ in 0..<rotation.count where group.count < most {
                guard let account = rotation.popFirst(), let work = lines[account]?.popFirst() else { continue }
                group.append(work)
                if lines[account]?.isEmpty ?? true { lines[account] = nil } else { rotation.append(account) }
            }
        }
        return group
    }
}
