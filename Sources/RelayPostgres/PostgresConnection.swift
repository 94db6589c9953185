// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import CPostgres
import RelayStorage

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// A connection to PostgreSQL, used by one thread at a time. A statement without a result waits for the next one with a result, and both are
/// sent together, so that only that one waits for the network. Each statement is prepared once. See libpq's manual, section "Pipeline Mode".
final class PostgresConnection {
    /// A statement that was sent and has no answer yet.
    private enum Sent {
        case preparation(of: Prepared)
        case statement
    }

    private struct Prepared: Hashable {
        var sql: String
        /// Whether the statement fails unless it changes one row.
        var changesOne: Bool

        /// The statement with `$1`, `$2` and so on for each `?`. No statement has a question mark in a text.
        var text: String {
            let numbered = PostgresConnection.numbered(sql)
            guard changesOne else { return numbered }
            return """
                WITH changed AS (\(numbered) RETURNING 1)
                SELECT CASE WHEN count(*) = 1 THEN 1 ELSE CAST('changed ' || count(*) || ' rows' AS INTEGER) END FROM changed
                """
        }
    }

    /// How much is sent before answers are read. It bounds the memory for what the server has not taken.
    private static let maximumSent = 256

    private let connection: OpaquePointer
    private var names: [Prepared: String] = [:]
    private var sent: [Sent] = []
    /// Warnings since they were last counted.
    private let warnings = Warnings()
    /// How many statements that may write were sent in this transaction.
    private(set) var writes = 0
    /// Whether each statement is waited for, so that its error comes at once.
    var isImmediate = false
    /// The error of the present transaction. The server refuses all that follows until its end.
    private(set) var failure: PostgresError?
    /// How long an answer may take, in milliseconds; `nil` for ever, but not after a stop.
    var patience: CInt? = PostgresConnection.patience
    /// Whether nothing is waited for any more.
    var isStopped: () -> Bool = { false }

    private static let patience: CInt = 6_000

    private final class Warnings { var count = 0 }

    /// Opens a connection with the relay's settings. Blocks.
    /// - Parameter parameters: As in libpq's manual, section "Parameter Key Words".
    init(_ parameters: [(name: String, value: String)]) throws(PostgresError) {
        let keys = parameters.map { strdup($0.name) } + [nil]
        let values = parameters.map { strdup($0.value) } + [nil]
        defer { for text in keys + values { free(text) } }
        let opened = keys.map { UnsafePointer($0) }.withUnsafeBufferPointer { keys in
            values.map { UnsafePointer($0) }.withUnsafeBufferPointer { PQconnectdbParams(keys.baseAddress, $0.baseAddress, 0) }
        }
        guard let opened else { throw .lost("out of memory") }
        guard PQstatus(opened) == CONNECTION_OK else {
            let reason = PostgresError.reason(of: opened)
            PQfinish(opened)
            throw .unopened(reason)
        }
        connection = opened
        PQsetNoticeReceiver(
            connection,
            { context, _ in
                guard let context else { return }
                Unmanaged<Warnings>.fromOpaque(context).takeUnretainedValue().count += 1
            },
            Unmanaged.passUnretained(warnings).toOpaque()
        )
        guard PQsetnonblocking(connection, 1) == 0, PQenterPipelineMode(connection) == 1 else {
            throw .misused("the connection has no pipeline mode")
        }
        // Not with the start of the connection: a pooler in session mode takes them only so.
        _ = try run(PostgresSettings.statement, [])
    }

    deinit { PQfinish(connection) }

    /// The version of the server, as 150004 for 15.4.
    var serverVersion: Int { Int(PQserverVersion(connection)) }
    /// The process that the server has named for this connection. A pooler names another one.
    var serverProcess: Int { Int(PQbackendPID(connection)) }

    private static func message(_ connection: OpaquePointer?) -> String {
        let text = PQerrorMessage(connection).map { String(cString: $0) } ?? ""
        return String(text.split(separator: "\n").first ?? "no reason is known")
    }

    // MARK: Transactions

    /// - Parameter isSerializable: Whether the transaction runs as if it were alone. Otherwise each statement sees what is stored by then.
    func begin(isSerializable: Bool = false) throws(PostgresError) {
        (writes, failure) = (0, nil)
        try send(isSerializable ? "BEGIN ISOLATION LEVEL SERIALIZABLE" : "BEGIN", [])
    }

    /// Ends the transaction.
    /// - Parameter isAwaited: Whether the answer is waited for, however long that takes.
    /// - Throws: `refused` if it is not stored; any other error if that is not known.
    func commit(isAwaited: Bool = true) throws(PostgresError) {
        warnings.count = 0
        if isAwaited { patience = nil }
        defer { patience = Self.patience }
        let answer = try run("COMMIT", [])
        // The server answers ROLLBACK if a statement has failed.
        guard answer.tag == "COMMIT" else { throw .refused(code: "25P02", message: "the transaction had failed") }
        // For example that the wait for the standby was cancelled.
        guard warnings.count == 0 else { throw .lost("a warning with the commit") }
    }

    /// Undoes the transaction.
    func rollback() throws(PostgresError) {
        failure = nil
        do throws(PostgresError) {
            _ = try run("ROLLBACK", [])
        } catch {
            guard error.isOfStatement else { throw error }
            // An earlier statement failed, and its error was not read. So the server has skipped this ROLLBACK.
            failure = nil
            _ = try run("ROLLBACK", [])
        }
    }

    /// Forgets the error of a part of the transaction, which is undone by the next statement.
    func forgetFailure() { failure = nil }

    // MARK: Statements

    /// Sends a statement, with the next one that waits.
    /// - Parameter changesOne: Whether it fails unless it changes one row. Its error comes later, too.
    func send(_ sql: String, _ values: [SQLValue?], mayWrite: Bool = false, changesOne: Bool = false) throws(PostgresError) {
        try append(sql, values, mayWrite: mayWrite, changesOne: changesOne)
        if isImmediate { _ = try synchronize() }
    }

    private func append(_ sql: String, _ values: [SQLValue?], mayWrite: Bool, changesOne: Bool = false) throws(PostgresError) {
        if let failure { throw failure }
        if sent.count >= Self.maximumSent { _ = try synchronize() }
        if mayWrite { writes += 1 }
        let name = try prepare(Prepared(sql: sql, changesOne: changesOne))
        let parameters = try Parameters(values)
        let isSent = parameters.withPointers { count, values, lengths, formats in
            PQsendQueryPrepared(connection, name, count, values, lengths, formats, 1)
        }
        guard isSent == 1 else { throw fail(.lost(Self.message(connection))) }
        sent.append(.statement)
    }

    /// Runs a statement and waits for its result.
    func run(_ sql: String, _ values: [SQLValue?], mayWrite: Bool = false) throws(PostgresError) -> PostgresResult {
        try append(sql, values, mayWrite: mayWrite)
        return try synchronize()
    }

    private func prepare(_ statement: Prepared) throws(PostgresError) -> String {
        if let name = names[statement] { return name }
        let name = "s\(names.count)"
        guard PQsendPrepare(connection, name, statement.text, 0, nil) == 1 else { throw fail(.lost(Self.message(connection))) }
        names[statement] = name
        sent.append(.preparation(of: statement))
        return name
    }

    static func numbered(_ sql: String) -> String {
        var (result, number) = ("", 0)
        for character in sql {
            guard character == "?" else {
                result.append(character)
                continue
            }
            number += 1
            result += "$\(number)"
        }
        return result
    }

    private func fail(_ error: PostgresError) -> PostgresError {
        if failure == nil { failure = error }
        return error
    }

    // MARK: Answers

    /// Sends a synchronization point, and reads all answers up to it.
    /// - Returns: The result of the last statement.
    private func synchronize() throws(PostgresError) -> PostgresResult {
        guard PQpipelineSync(connection) == 1 else { throw fail(.lost(Self.message(connection))) }
        let expected = sent
        sent = []
        var (index, last, problem): (Int, PostgresResult?, PostgresError?) = (0, nil, nil)
        while true {
            guard let next = try next() else { continue }
            let result = PostgresResult(next)
            switch result.status {
            case PGRES_PIPELINE_SYNC:
                if let problem { throw fail(problem) }
                guard index == expected.count, let last else { throw fail(.misused("answers do not match statements")) }
                return last
            case PGRES_COMMAND_OK, PGRES_TUPLES_OK: last = result
            default:
                // A statement that could not be prepared, or was skipped, is prepared anew.
                if index < expected.count, case .preparation(let statement) = expected[index] { names[statement] = nil }
                if result.status != PGRES_PIPELINE_ABORTED, problem == nil { problem = result.error }
            }
            index += 1
        }
    }

    /// - Returns: `nil` between the results of two statements.
    private func next() throws(PostgresError) -> OpaquePointer? {
        while PQisBusy(connection) == 1 {
            let unsent = PQflush(connection)
            guard unsent >= 0 else { throw fail(.lost(Self.message(connection))) }
            var descriptor = pollfd(fd: PQsocket(connection), events: Int16(POLLIN | (unsent > 0 ? POLLOUT : 0)), revents: 0)
            let count = poll(&descriptor, 1, patience ?? 500)
            if count == 0 {
                if patience == nil, !isStopped() { continue }
                throw fail(.timedOut)
            }
            guard count > 0 || errno == EINTR else { throw fail(.lost("poll failed")) }
            guard PQconsumeInput(connection) == 1 else { throw fail(.lost(Self.message(connection))) }
        }
        let result = PQgetResult(connection)
        if PQstatus(connection) != CONNECTION_OK {
            PQclear(result)
            throw fail(.lost(Self.message(connection)))
        }
        return result
    }
}

/// The values of a statement's parameters, as libpq takes them.
private struct Parameters {
    private var storage: [UInt8] = []
    /// Where each value begins; `nil` for NULL.
    private var offsets: [Int?] = []
    private var lengths: [CInt] = []
    private var formats: [CInt] = []

    init(_ values: [SQLValue?]) throws(PostgresError) {
        for value in values {
            offsets.append(value == nil ? nil : storage.count)
            let start = storage.count
            switch value {
            case .integer(let integer): storage += "\(integer)".utf8
            case .text(let text):
                guard !text.utf8.contains(0) else { throw .refused(code: "22021", message: "a text has U+0000") }
                storage += text.utf8
            case .bytes(let bytes): storage += bytes
            case nil: break
            }
            lengths.append(CInt(clamping: storage.count - start))
            if case .bytes? = value { formats.append(1) } else { formats.append(0) }
            // Texts end with it.
            storage.append(0)
        }
    }

    func withPointers<Result>(
        _ body: (CInt, UnsafePointer<UnsafePointer<CChar>?>?, UnsafePointer<CInt>?, UnsafePointer<CInt>?) -> Result
    ) -> Result {
        storage.withUnsafeBytes { storage in
            let base = storage.baseAddress?.assumingMemoryBound(to: CChar.self)
            let pointers = offsets.map { offset in offset.flatMap { base?.advanced(by: $0) } }
            return pointers.withUnsafeBufferPointer { pointers in
                lengths.withUnsafeBufferPointer { lengths in
                    formats.withUnsafeBufferPointer { formats in
                        body(CInt(pointers.count), pointers.baseAddress, lengths.baseAddress, formats.baseAddress)
                    }
                }
            }
        }
    }
}
#endif
