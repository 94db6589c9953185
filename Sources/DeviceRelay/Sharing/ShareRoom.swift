// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Synchronization

/// The bytes that the running transfers of this process still need on the disk, so that they do not fill it together.
package final class ShareRoom: Sendable {
    /// What must stay free on the file system, in bytes.
    private let reserve: Int64
    private let needed = Mutex<[ObjectIdentifier: Int64]>([:])

    package init(reserve: Int64) { self.reserve = reserve }

    /// Takes room for a transfer.
    /// - Parameters:
    ///   - bytes: What it needs.
    ///   - free: What the file system has; `nil` if it does not say.
    /// - Returns: Whether there is room for it, all other transfers, and the reserve.
    func take(_ bytes: Int64, of free: Int64?, for transfer: ObjectIdentifier) -> Bool {
        needed.withLock { needed in
            if let free {
                let (all, overflow) = needed.values.reduce(into: (bytes, false)) { sum, next in
                    let (value, isOver) = sum.0.addingReportingOverflow(next)
                    sum = (value, sum.1 || isOver)
                }
                guard !overflow, all <= free, free - all >= reserve else { return false }
            }
            needed[transfer] = bytes
            return true
        }
    }

    /// Some of what a transfer needs is on the disk. A negative number takes it back.
    func written(_ bytes: Int64, by transfer: ObjectIdentifier) {
        needed.withLock { needed in
            guard let before = needed[transfer] else { return }
            let (left, overflow) = before.subtractingReportingOverflow(bytes)
            needed[transfer] = overflow ? before : max(0, left)
        }
    }

    func release(_ transfer: ObjectIdentifier) { needed.withLock { $0[transfer] = nil } }
}
