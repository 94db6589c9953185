// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// How a command ended. Every accepted command has exactly one outcome.
@nonexhaustive public enum CommandOutcome: Hashable, Sendable {
    /// The handler accepted the command.
    case succeeded
    /// The handler, its user or a policy of the target declined it. The reason is the target's text and may be shown; it is empty if the
    /// target gave none.
    case declined(reason: String)
    /// No app or handler at the target supports it.
    case unsupported
    /// The handler failed. The reason is the target's text and may be shown.
    case failed(reason: String)
    /// It has not run and will not: it expired first.
    case expired
    /// It has not run and will not: the sender cancelled it, or its target was removed before the relay offered it.
    case cancelled
    /// It may have run; it is never run again.
    case indeterminate(Indeterminate)

    /// It was declined, and the target gave no reason.
    public static let declined = CommandOutcome.declined(reason: "")

    /// Why it is unknown whether a command ran.
    @nonexhaustive public enum Indeterminate: String, Hashable, Sendable, Codable {
        /// The target stopped while it handled the command.
        case interrupted
        /// The handler did not answer in time.
        case timedOut
        /// The target cannot tell any more whether it ran: its number, or a higher one, was handled there before, or the target's stored
        /// state is older than the command.
        case forgotten
        /// The target was removed, did not answer within 24 h after the command expired, or sent an invalid receipt.
        case targetLost
    }
}

extension CommandOutcome {
    /// Whether a relay may attest this outcome. A relay only knows that it never offered a command, or that the target is gone.
    package var canBeAttestedByRelay: Bool {
        self == .expired || self == .cancelled || self == .indeterminate(.targetLost)
    }
}

/// Who attests the outcome of a command.
public enum CommandAttestation: String, Hashable, Sendable, Codable {
    /// The target, with a signed receipt.
    case target
    /// The relay, if it never offered the command, or if the target is gone.
    case relay
}
