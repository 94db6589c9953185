// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What the sender of a command sees of it on the way. A newer version may use more statuses.
public struct CommandStatus: Hashable, Sendable, CustomStringConvertible {
    private enum Name: String { case accepted, waking, delivered, final }

    private let name: Name
    /// How the command ended; `nil` unless this is its final status.
    public let outcome: CommandOutcome?
    /// Who says how it ended; `nil` unless this is its final status.
    public let attestedBy: CommandAttestation?
    /// What the relay knows of the wake; `nil` unless the status is `waking`.
    public let wake: CommandWake?

    private init(_ name: Name, outcome: CommandOutcome? = nil, attestedBy: CommandAttestation? = nil, wake: CommandWake? = nil) {
        self.name = name
        self.outcome = outcome
        self.attestedBy = attestedBy
        self.wake = wake
    }

    /// The relay has stored it: it is not lost any more.
    public static let accepted = Self(.accepted)
    /// The relay has sent a wake to its target, which is not connected, and the push service has taken it.
    public static func waking(_ wake: CommandWake) -> Self { Self(.waking, wake: wake) }
    /// The target has stored it.
    public static let delivered = Self(.delivered)
    /// It has ended. Nothing comes after this.
    public static func final(_ outcome: CommandOutcome, attestedBy: CommandAttestation) -> Self {
        Self(.final, outcome: outcome, attestedBy: attestedBy)
    }

    /// The status's name.
    public var description: String { name.rawValue }
}

/// What the relay knows of a wake that it has sent.
public struct CommandWake: Hashable, Sendable {
    /// The type of the push channel: `apns`, `fcm`, `wns` or `webPush`; `nil` if it is not known any more. A newer relay may use more types.
    public let channel: String?
    package let expectedWithinMilliseconds: Milliseconds?

    /// How long the device took to answer its last wake, if it has answered one.
    public var expectedWithin: Duration? { expectedWithinMilliseconds.map { .milliseconds($0.count) } }

    package init(channel: String? = nil, expectedWithin: Milliseconds? = nil) {
        self.channel = channel
        self.expectedWithinMilliseconds = expectedWithin
    }
}

/// The statuses before the final one, in order. A status is never followed by an earlier one.
package enum CommandProgress: Hashable, Sendable, Comparable {
    case accepted
    case waking(CommandWake)
    case delivered

    package static func < (left: Self, right: Self) -> Bool { left.rank < right.rank }

    private var rank: Int {
        switch self {
        case .accepted: 0
        case .waking: 1
        case .delivered: 2
        }
    }

    package var status: CommandStatus {
        switch self {
        case .accepted: .accepted
        case .waking(let wake): .waking(wake)
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
    /// The lane's highest number at the target, if the command's number had passed there. It is part of the receipt, and not stored by
    /// itself.
    package let highest: UInt64?

    /// The target's result.
    package init(outcome: CommandOutcome, receipt: [UInt8], reply: [UInt8]?, highest: UInt64? = nil) {
        self.outcome = outcome
        self.attestedBy = .target
        self.receipt = receipt
        self.reply = reply
        self.highest = highest
    }

    /// An outcome that the relay states. The receiver checks with `isWithinAuthority` whether the relay may state it.
    package init(attestedByRelay outcome: CommandOutcome) {
        self.outcome = outcome
        self.attestedBy = .relay
        self.receipt = nil
        self.reply = nil
        self.highest = nil
    }

    /// The number above which the sender signs the command again: the target certainly has not run it, and never will under its number.
    package var passedNumber: UInt64? { if case .failed = outcome { highest } else { nil } }

    /// Whether the attesting party may attest this outcome. Only the target can state what a handler did.
    package var isWithinAuthority: Bool {
        switch attestedBy {
        case .target: receipt != nil
        case .relay: outcome.canBeAttestedByRelay
        }
    }

    package var status: CommandStatus { .final(outcome, attestedBy: attestedBy) }
}
