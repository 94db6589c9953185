// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// How much a control channel may process before its event loop serves other channels.
struct ReadBudget {
    private static let policy = AdmissionPolicy.standard

    /// The pause before the budget is renewed.
    static let pause = policy.readBudgetPause

    /// A pause has begun, which `renew` ends.
    private var isUsed = false
    private var bytes = 0

    /// Counts bytes that were read.
    /// - Returns: Whether the budget is used up.
    mutating func read(_ count: Int) -> Bool {
        bytes += count
        return bytes >= Self.policy.readBudget
    }

    /// - Returns: Whether a pause begins; `false` if there is one.
    mutating func pause() -> Bool {
        defer { isUsed = true }
        return !isUsed
    }

    mutating func renew() { self = ReadBudget() }

    /// Whether messages that waited have taken a whole budget.
    static func isUsed(by bytes: Int) -> Bool { bytes >= policy.readBudget }

    /// What a waiting frame takes.
    static func cost(of event: WebSocketReader.Event) -> Int {
        if case .text(let frame) = event { max(frame.readableBytes, policy.minimumPerMessage) } else { policy.frameOverhead }
    }
}
