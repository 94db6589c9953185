// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import CPostgres
import Foundation
import RelayStorage

/// The result of a statement.
final class PostgresResult {
    fileprivate let result: OpaquePointer

    init(_ result: OpaquePointer) { self.result = result }

    deinit { PQclear(result) }

    var status: ExecStatusType { PQresultStatus(result) }
    /// What was done, for example `COMMIT` or `UPDATE 1`.
    var tag: String { PQcmdStatus(result).map { String(cString: $0) } ?? "" }
    /// The number of rows that were added, changed, deleted or read.
    var changes: Int { PQcmdTuples(result).flatMap { Int(String(cString: $0)) } ?? 0 }

    var error: PostgresError {
        func field(_ code: Character) -> String? {
            code.asciiValue.flatMap { PQresultErrorField(result, CInt($0)) }.map { String(cString: $0) }
        }
        // See libpq's manual, PQresultErrorField: PG_DIAG_SQLSTATE and PG_DIAG_MESSAGE_PRIMARY.
        guard let code = field("C") else { return .lost("the connection has ended") }
        return .refused(code: code, message: field("M") ?? "")
    }

    var rows: [PostgresRow] { (0..<PQntuples(result)).map { PostgresRow(self, $0) } }
}

/// A row in binary format.
struct PostgresRow: SQLRow {
    private let result: PostgresResult
    private let row: CInt

    init(_ result: PostgresResult, _ row: CInt) { (self.result, self.row) = (result, row) }

    /// Types, as in `pg_type.oid`.
    private enum OID {
        static let bool: UInt32 = 16
        static let bytea: UInt32 = 17
        static let int8: UInt32 = 20
        static let int2: UInt32 = 21
        static let int4: UInt32 = 23
        static let text: UInt32 = 25
    }

    func isNull(_ column: Int) -> Bool { PQgetisnull(result.result, row, CInt(column)) == 1 }

    func integer(_ column: Int) throws -> Int64 {
        try withBytes(column, [OID.int8, OID.int4, OID.int2, OID.bool]) { bytes in
            // Big-endian, with its sign in the first byte. A truth value is one byte, 0 or 1.
            guard let first = bytes.first else { throw ColumnError() }
            return bytes.dropFirst().reduce(Int64(Int8(bitPattern: first))) { $0 << 8 | Int64($1) }
        }
    }

    func text(_ column: Int) throws -> String {
        try withBytes(column, [OID.text]) { String(decoding: $0, as: UTF8.self) }
    }

    func value(_ column: Int) throws -> SQLValue? {
        if isNull(column) { return nil }
        switch PQftype(result.result, CInt(column)) {
        case OID.bytea: return .bytes(Data(try bytes(column)))
        case OID.text: return .text(try text(column))
        default: return .integer(try integer(column))
        }
    }

    func bytes(_ column: Int) throws -> [UInt8] { try withBytes(column, [OID.bytea]) { [UInt8]($0) } }

    private func withBytes<Value>(_ column: Int, _ types: [UInt32], _ body: (UnsafeRawBufferPointer) throws -> Value) throws -> Value {
        let (result, column) = (result.result, CInt(column))
        guard types.contains(PQftype(result, column)), PQgetisnull(result, row, column) == 0 else { throw ColumnError() }
        return try body(UnsafeRawBufferPointer(start: PQgetvalue(result, row, column), count: Int(PQgetlength(result, row, column))))
    }
}
#endif
