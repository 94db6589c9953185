// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import GRDB
import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// What a row holds is not what this software writes.
struct RowProblem: Error {}

// How values stand in columns, and how they are read again without trusting the file.

extension KeyFingerprint {
    var column: Data { digest.column }
}

extension Digest256 {
    var column: Data { Data(bytes) }
}

extension CommandID {
    var column: Data { withUnsafeBytes(of: uuid.uuid) { Data($0) } }
}

/// Unsigned numbers in a signed column, in the same order.
enum NumberColumn {
    static func encode(_ number: UInt64) -> Int64 { Int64(bitPattern: number ^ 1 << 63) }
    static func decode(_ column: Int64) -> UInt64 { UInt64(bitPattern: column) ^ 1 << 63 }
}

extension Row {
    /// `nil` where the column is null.
    func value<Value: DatabaseValueConvertible>(_ name: String, as type: Value.Type = Value.self) throws -> Value? {
        guard let column: DatabaseValue = self[name] else { throw RowProblem() }
        if column.isNull { return nil }
        guard let value = Value.fromDatabaseValue(column) else { throw RowProblem() }
        return value
    }

    func required<Value: DatabaseValueConvertible>(_ name: String, as type: Value.Type = Value.self) throws -> Value {
        guard let value = try value(name, as: type) else { throw RowProblem() }
        return value
    }

    func bytes(_ name: String) throws -> [UInt8] { [UInt8](try required(name, as: Data.self)) }

    func optionalBytes(_ name: String) throws -> [UInt8]? { try value(name, as: Data.self).map { [UInt8]($0) } }

    func digest(_ name: String) throws -> Digest256 {
        guard let digest = Digest256(bytes: try bytes(name)) else { throw RowProblem() }
        return digest
    }

    func endpoint(_ name: String) throws -> EndpointID { EndpointID(digest: try digest(name)) }

    func number(_ name: String) throws -> UInt64 { NumberColumn.decode(try required(name, as: Int64.self)) }

    func commandID(_ name: String) throws -> CommandID {
        let bytes = try bytes(name)
        guard bytes.count == 16 else { throw RowProblem() }
        let uuid = bytes.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
        guard let id = CommandID(uuid: uuid) else { throw RowProblem() }
        return id
    }

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
        guard let outcome = CommandOutcome(column: try required("outcome"), reason: reason) else { throw RowProblem() }
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
        case "waking": self = .waking
        case "delivered": self = .delivered
        default: return nil
        }
    }
}

extension CommandRefusal.Reason {
    /// The code of the relay's error; `other:` stands before those that say nothing about commands in particular.
    var column: String {
        if case .other(let code) = self { return "other:\(code)" }
        return CommandRefusal(self, mayHaveRun: false).code
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
