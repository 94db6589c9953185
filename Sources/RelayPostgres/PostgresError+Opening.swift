// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import CPostgres

extension PostgresError {
    /// Why a connection could not be opened, in libpq's words, and what an operator can do.
    static func reason(of connection: OpaquePointer) -> String {
        let text = PQerrorMessage(connection).map { String(cString: $0) } ?? ""
        // A line for each host that was tried. Lines with a tab ask questions.
        let lines = text.utf8.split(separator: UInt8(ascii: "\n")).filter { $0.first != UInt8(ascii: "\t") }
        return reason(lines.map { String(Substring($0)) }.joined(separator: "; "))
    }

    /// Adds the next step to a message. libpq gives no code for it, and a server may have messages in another language.
    static func reason(_ message: String) -> String {
        guard !message.isEmpty else { return "no reason is known" }
        let step = steps.first { words, _ in words.contains { message.contains($0) } }?.next
        return step.map { "\(message): \($0)" } ?? message
    }

    private static let steps: [(words: [String], next: String)] = [
        (
            ["session is read-only", "server is in hot standby mode"],
            """
            a standby, or a server that is read-only, does not do; name the primary, or all servers in one URI, such as \
            postgres://relayd@db1,db2/relay, of which the relay takes the primary
            """
        ),
        (
            ["password authentication failed"],
            "write the right password for this user into ~/.pgpass, or into the file that passfile= names"
        ),
        (
            ["no password supplied"],
            """
            write the line host:port:database:user:password, with * for whatever it is, into ~/.pgpass, or into a file that passfile= names; \
            nobody else may read the file (mode 0600)
            """
        ),
        (["unsupported startup parameter"], "connect to the server directly, or by a pooler in session mode"),
        (["no pg_hba.conf entry"], "let the user in by pg_hba.conf"),
        (
            ["SSL", "certificate"],
            "the server has to prove who it is; name its authority with sslrootcert=, and see docs/scaling.md about sslmode"
        ),
        (["role \""], "make this user with `createuser`, or name another one"),
        (["database \"", "no such database"], "make an empty one with `createdb`, or name another one"),
        (["too many clients", "connection slots", "too many connections"], "raise max_connections, see docs/scaling.md"),
        (["starting up", "shutting down", "recovery mode"], "try again when it runs"),
        (
            ["Connection refused", "No such file", "could not translate", "timeout expired", "unreachable", "timed out"],
            "see that PostgreSQL runs, and that the URI has its host and port"
        ),
    ]
}
#endif
