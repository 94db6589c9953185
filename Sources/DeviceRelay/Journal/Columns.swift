// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayStorage

// Conversion between values and columns. Reading validates every value, because the file may be damaged.

extension Row {
    func descriptor(sender: EndpointID, target: EndpointID) throws -> CommandDescriptor {
        CommandDescriptor(
            id: try commandID("id"),
            lane: CommandLane(sender: sender, target: target, appID: try required("app")),
            number: try number("number"),
            created: try required("created"),
            expires: try required("expires"),
            digest: try digest("digest"),
            size: try required("size")
        )
    }

    func outcome() throws -> CommandOutcome {
        let reason: String? = try value("outcome_reason")
        guard let outcome = CommandOutcome(column: try required("outcome"), reason: reason) else { throw ColumnError() }
        return outcome
    }
}

extension CommandOutcome {
    var column: String {
        switch self {
        case .succeeded: "succeeded"
        case .declined: "declined"
        case .unsupported: "unsupported"
        case .failed: "failed"
        case .expired: "expired"
        case .cancelled: "cancelled"
        case .indeterminate: "indeterminate"
        }
    }

    var reasonColumn: String? {
        switch self {
        case .declined(let reason): reason.isEmpty ? nil : reason
        case .failed(let reason): reason
        case .indeterminate(let reason): reason.rawValue
        case .succeeded, .unsupported, .expired, .cancelled: nil
        }
    }

    init?(column: String, reason: String?) {
        switch (column, reason) {
        case ("succeeded", nil): self = .succeeded
        case ("declined", let reason): self = .declined(reason: reason ?? "")
        case ("unsupported", nil): self = .unsupported
        case ("expired", nil): self = .expired
        case ("cancelled", nil): self = .cancelled
        case ("failed", let reason?): self = .failed(reason: reason)
        case ("indeterminate", let reason?):
            guard let reason = Indeterminate(rawValue: reason) else { return nil }
            self = .indeterminate(reason)
        default: return nil
        }
    }
}

extension CommandProgress {
    var column: String {
        switch self {
        case .accepted: "accepted"
        case .waking: "waking"
        case .delivered: "delivered"
        }
    }

    init?(column: String) {
        switch column {
        case "accepted": self = .accepted
        case "waking": self = .waking(CommandWake())
        case "delivered": self = .delivered
        default: return nil
        }
    }
}

extension CommandRejection.Reason {
    /// The code of the relay's error. Codes that are not specific to commands have the prefix `other:`.
    var column: String {
        if case .other(let code) = self { return "other:\(code)" }
        return CommandRejection(self, mayHaveRun: false).code
    }

    var limit: LimitExceeded? {
        if case .limit(let exceeded) = self { return exceeded }
        return nil
    }

    init?(column: String, limit: LimitExceeded?) {
        switch (column, limit) {
        case ("idConflict", nil): self = .idConflict
        case ("clockSkew", nil): self = .clockSkew
        case ("numberPassed", nil): self = .numberPassed
        case ("expired", nil): self = .expired
        case ("livesTooLong", nil): self = .livesTooLong
        case ("targetUnknown", nil): self = .targetUnknown
        case ("commandTooLarge", let limit?), ("mailboxFull", let limit?): self = .limit(limit)
        default:
            guard column.hasPrefix("other:"), limit == nil else { return nil }
            self = .other(code: String(column.dropFirst(6)))
        }
    }
}
