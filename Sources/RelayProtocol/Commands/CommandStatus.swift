// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What the sender of a command sees of it on the way.
public enum CommandStatus: Hashable, Sendable {
    /// The relay has stored it: it is not lost any more.
    case accepted
    /// The relay has sent a wake to its target, which is not connected. A relay that sends no wakes never says so.
    case waking
    /// The target has stored it.
    case delivered
    /// It has ended. Nothing comes after this.
    case final(CommandOutcome, attestedBy: CommandAttestation)
}

/// The statuses before the final one, in their order: a later one is never followed by an earlier one.
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

/// How a command ended, and what proves it. Receipt and reply are opaque here.
package struct CommandFinal: Hashable, Sendable {
    package let outcome: CommandOutcome
    package let attestedBy: CommandAttestation
    /// What the target signed; `nil` if the relay attests the outcome.
    package let receipt: [UInt8]?
    /// What the handler answered, sealed for the sender.
    package let reply: [UInt8]?

    /// The target's result.
    package init(outcome: CommandOutcome, receipt: [UInt8], reply: [UInt8]?) {
        self.outcome = outcome
        self.attestedBy = .target
        self.receipt = receipt
        self.reply = reply
    }

    /// What the relay says. Whether it may say so is for the one who hears it to check: see `isWithinAuthority`.
    package init(attestedByRelay outcome: CommandOutcome) {
        self.outcome = outcome
        self.attestedBy = .relay
        self.receipt = nil
        self.reply = nil
    }

    /// Whether this outcome is one that its witness may attest. What a handler did, the target alone can say.
    package var isWithinAuthority: Bool {
        switch attestedBy {
        case .target: receipt != nil
        case .relay: outcome.canBeAttestedByRelay
        }
    }

    package var status: CommandStatus { .final(outcome, attestedBy: attestedBy) }
}
