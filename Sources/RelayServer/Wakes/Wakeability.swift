// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Whether and how soon an endpoint would answer when it is not connected.
struct Wakeability: Hashable, Sendable {
    var isWakeable = false
    var expectedWithin: Milliseconds?
}

extension PushRow {
    func wakeability(at now: Int64, _ rules: RelayRules) -> Wakeability {
        let isWakeable = isWakeable(at: now, rules)
        return Wakeability(isWakeable: isWakeable, expectedWithin: isWakeable || channel.kind == .polling ? expectedWithin : nil)
    }
}

extension Presence {
    init(_ state: RemoteSystemStatus, _ reason: Reason, since: Milliseconds? = nil, _ wakeability: Wakeability) {
        // Who has signed out does not come back by itself.
        let isAsleep = reason != .signedOut && reason != .neverSeen
        self.init(
            state,
            reason,
            since: since,
            expectedWithin: isAsleep ? wakeability.expectedWithin : nil,
            isWakeable: isAsleep && wakeability.isWakeable
        )
    }
}
