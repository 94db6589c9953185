// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The progress of a command, as its sender sees it.
public enum CommandStatus: Hashable, Sendable {
    /// The relay has stored it, so it is not lost any more.
    case accepted
    /// The relay has sent a wake to the target, which is not connected. A relay that sends no wakes never reports this status.
    case waking
    /// The target has stored it.
    case delivered
    /// It has ended. No status follows.
    case final(CommandOutcome, attestedBy: CommandAttestation)
}

/// The statuses before the final one, in order. A status is never followed by an earlier one.
package enum CommandProgress: Int, Hashable, Sendable, Comparable {
    case accepted
    case waking
    case delivered

    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }

    package var status: CommandStatus {
        switch self {
        case .accepted: .accepted
        case .waking: .waking
        case .delivered: .delivered
        }
    }
}

/// The outcome of a command, and its proof. Receipt and reply are opaque here.
package struct CommandFinal: Hashable, Sendable {
    package let outcome: CommandOutcome
    package let attestedBy: CommandAttestation
    /// The target's signed receipt; `nil` if the relay attests the outcome.
    package let receipt: [UInt8]?
    /// The handler's answer, sealed for the sender.
    package let reply: [UInt8]?

    /// The target's result.
    package init(outcome: CommandOutcome, receipt: [UInt8], reply: [UInt8]?) {
        self.outcome = outcome
        self.attestedBy = .target
        self.receipt = receipt
        self.reply = reply
    }

    /// An outcome that the relay states. The receiver checks with `isWithinAuthority` whether the relay may state it.
    package init(attestedByRelay outcome: CommandOutcome) {
        self.outcome = outcome
        self.attestedBy = .relay
        self.receipt = nil
        self.reply = nil
    }

    /// Whether the attesting party may attest this outcome. Only the target can state what a handler did.
    package var isWithinAuthority: Bool {
        switch attestedBy {
        case .target: receipt != nil
        case .relay: outcome.canBeAttestedByRelay
        }
    }

    package var status: CommandStatus { .final(outcome, attestedBy: attestedBy) }
}
