// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
/// Why PostgreSQL did not do what it was asked.
enum PostgresError: Error, Hashable, Sendable {
    /// The server answered with an error. Its code is an SQLSTATE of five characters; see PostgreSQL's manual, appendix A.
    case refused(code: String, message: String)
    /// The connection could not be opened. The reason says what an operator can do.
    case unopened(String)
    /// The connection has ended.
    case lost(String)
    /// The server has not answered in time. The connection is of no use any more.
    case timedOut
    /// This client has used the library wrongly.
    case misused(String)

    /// Whether the connection is still good.
    var isOfStatement: Bool { if case .refused = self { true } else { false } }
}
#endif
