// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What is done one after the other, since what follows a write may happen only once that is on disk.
struct WorkQueue<Work> {
    private var items: [Work] = []
    private var isWorking = false

    mutating func append(_ item: Work) { items.append(item) }

    /// Whether somebody has to begin to work.
    mutating func begin() -> Bool {
        guard !isWorking, !items.isEmpty else { return false }
        isWorking = true
        return true
    }

    /// All there is, in order, so that what it writes is one commit; the work ends when there is none.
    mutating func next() -> [Work]? {
        guard !items.isEmpty else {
            isWorking = false
            return nil
        }
        defer { items = [] }
        return items
    }

    /// The work ends; these are the next ones when it begins again.
    mutating func putBack(_ work: some Collection<Work>) {
        items.insert(contentsOf: work, at: 0)
        isWorking = false
    }

    /// Whatever is left is dropped, as by a crash.
    /// - Returns: What that is.
    @discardableResult
    mutating func fail() -> [Work] {
        defer { items = [] }
        isWorking = false
        return items
    }
}
