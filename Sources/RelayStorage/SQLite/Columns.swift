// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
package import GRDB
package import RelayProtocol

/// A row has content that this software does not write.
package struct ColumnError: Error {
    package init() {}
}

// Conversion of values to columns and back. The file is not trusted when it is read.

extension KeyFingerprint {
    package var column: Data { digest.column }
}

extension Digest256 {
    package var column: Data { withUnsafeBytes { Data($0) } }
}

extension CommandID {
    package var column: Data { withUnsafeBytes(of: uuid.uuid) { Data($0) } }

    package init(column: Data) throws {
        guard column.count == 16 else { throw ColumnError() }
        let uuid = column.withUnsafeBytes { $0.loadUnaligned(as: uuid_t.self) }
        guard let id = CommandID(uuid: UUID(uuid: uuid)) else { throw ColumnError() }
        self = id
    }
}

/// Unsigned numbers in a signed column, with the same order.
package enum NumberColumn {
    package static func encode(_ number: UInt64) -> Int64 { Int64(bitPattern: number ^ 1 << 63) }
    package static func decode(_ column: Int64) -> UInt64 { UInt64(bitPattern: column) ^ 1 << 63 }
}

/// Columns by name.
extension Row {
    /// `nil` if the column is null.
    package func value<Value: DatabaseValueConvertible>(_ name: String, as type: Value.Type = Value.self) throws -> Value? {
        guard let column: DatabaseValue = self[name] else { throw ColumnError() }
        if column.isNull { return nil }
        guard let value = Value.fromDatabaseValue(column) else { throw ColumnError() }
        return value
    }

    package func required<Value: DatabaseValueConvertible>(_ name: String, as type: Value.Type = Value.self) throws -> Value {
        guard let value = try value(name, as: type) else { throw ColumnError() }
        return value
    }

    package func bytes(_ name: String) throws -> [UInt8] { [UInt8](try required(name, as: Data.self)) }

    package func optionalBytes(_ name: String) throws -> [UInt8]? { try value(name, as: Data.self).map { [UInt8]($0) } }

    package func digest(_ name: String) throws -> Digest256 { try Digest256(column: try bytes(name)) }

    package func endpoint(_ name: String) throws -> EndpointID { EndpointID(digest: try digest(name)) }

    package func number(_ name: String) throws -> UInt64 { NumberColumn.decode(try required(name, as: Int64.self)) }

    package func commandID(_ name: String) throws -> CommandID { try CommandID(column: try required(name)) }
}

extension Digest256 {
    init(column bytes: [UInt8]) throws {
        guard let digest = Digest256(bytes: bytes) else { throw ColumnError() }
        self = digest
    }
}
