// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// How a command ended. There is exactly one for every accepted command.
public enum CommandOutcome: Hashable, Sendable {
    /// The handler took it.
    case succeeded
    /// The handler, its user or a policy of the target declined it; the reason is the target's and may be shown. Empty if it gave none.
    case declined(reason: String)
    /// Nothing at the target handles it.
    case unsupported
    /// The handler failed; the reason is the target's and may be shown.
    case failed(reason: String)
    /// It has not run and will not: its time was over.
    case expired
    /// It has not run and will not: the sender cancelled it, or its target was removed before it was offered.
    case cancelled
    /// It may have run; it is never run again.
    case indeterminate(Indeterminate)

    /// It was declined, and the target gave no reason.
    public static let declined = CommandOutcome.declined(reason: "")

    /// Why nobody knows whether a command ran.
    public enum Indeterminate: String, Hashable, Sendable, Codable {
        /// The target stopped while it was handling it.
        case interrupted
        /// The handler did not answer in its time.
        case timedOut
        /// The target is gone for good, has not answered 24 h after the command expired, or its answer was not its own.
        case targetLost
    }
}

extension CommandOutcome {
    /// Whether a relay can know it: that a command was never offered, or that its target is gone.
    package var canBeAttestedByRelay: Bool {
        self == .expired || self == .cancelled || self == .indeterminate(.targetLost)
    }
}

/// Who says how a command ended.
public enum CommandAttestation: String, Hashable, Sendable, Codable {
    /// The target, by a receipt it signed.
    case target
    /// The relay; only for what was never offered, or when the target is gone.
    case relay
}
