// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The processes whose host channel a newer process of the same endpoint took over. One that comes back shows that two are alive: the data
/// of the device was copied. One process at a time is usual, because a new process follows an old one that has ended.
struct HostTakeovers {
    private static let maximumCount = 8
    /// How long the endpoint counts as contested after the last return, in milliseconds.
    private static let period: Int64 = 24 * 3_600_000

    private var replaced: [Blob<BlobKinds.Instance>] = []
    private var returned: Milliseconds?

    /// A process has opened a host channel instead of others.
    mutating func opened(_ instance: Blob<BlobKinds.Instance>, insteadOf others: [Blob<BlobKinds.Instance>], at now: Milliseconds) {
        if replaced.contains(instance) { returned = now }
        replaced = (replaced.filter { $0 != instance && !others.contains($0) } + others).suffix(Self.maximumCount)
    }

    /// Until when the endpoint counts as contested; `nil` if it does not.
    func contestedUntil(at now: Milliseconds) -> Milliseconds? {
        guard let end = returned.map({ $0.count + Self.period }), now.count < end else { return nil }
        return Milliseconds(clamping: end)
    }

    var isEmpty: Bool { replaced.isEmpty && returned == nil }
}
