// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayStorage

/// Requests to the nodes of accounts. A database of one node has no table for them.
extension SQLTransaction {
    func withdraw(_ appID: String, of endpoint: EndpointID, in account: AccountID, time: Int64) throws {
        guard Database.isShared else { return try removeRegistration(appID, of: endpoint, in: account) }
        _ = try add(.withdraw(appID, of: endpoint), of: account, time: time)
    }

    func add(_ request: AccountRequest, of account: AccountID, time: Int64) throws -> Int64 {
        let body = String(decoding: try JSONEncoder().encode(request), as: UTF8.self)
        let id = Int64.random(in: 1 ... .max)
        try database.execute(
            "INSERT INTO account_request (id, account, body, made) VALUES (?, ?, ?, ?)",
            [id, account.rawValue, body, time]
        )
        return id
    }

    func openRequests(in scope: AccountScope, limit: Int) throws -> [LeftRequest] {
        let (condition, values) = scope.condition(on: "account_request")
        return try database.rows(
            "SELECT id, account, body, made FROM account_request WHERE answer IS NULL \(condition) ORDER BY made, id LIMIT ?",
            values + [limit]
        ) { row -> LeftRequest? in
            // A newer node may have left one that this node does not know.
            guard let request = try? JSONDecoder().decode(AccountRequest.self, from: Data(try row.text(2).utf8)) else { return nil }
            return LeftRequest(id: try row.integer(0), account: AccountID(try row.text(1)), request: request, made: try row.integer(3))
        }.compactMap { $0 }
    }

    func answer(_ request: Int64, _ answer: AccountAnswer, time: Int64) throws {
        let text = String(decoding: try JSONEncoder().encode(answer), as: UTF8.self)
        let changes = try database.changes(
            "UPDATE account_request SET answer = ?, answered = ? WHERE id = ? AND answer IS NULL",
            [text, time, request]
        )
        guard changes == 1 else { throw RequestIsAnswered() }
    }

    func answer(of request: Int64) throws -> AccountAnswer? {
        let text = try database.first("SELECT answer FROM account_request WHERE id = ?", [request]) { try $0.optional(0, $0.text) }
        return try (text ?? nil).map { try JSONDecoder().decode(AccountAnswer.self, from: Data($0.utf8)) }
    }

    func forgetRequests(answeredBefore time: Int64) throws {
        try database.execute("DELETE FROM account_request WHERE answered < ?", [time])
    }
}

extension AccountScope {
    /// A condition on a table with accounts, and the values of its parameters.
    func condition(on table: String) -> (sql: String, values: [(any SQLParameter)?]) {
        switch self {
        case .all: ("", [])
        case .node(let node, let part, let count):
            (
                """
                AND (
                    EXISTS (SELECT 1 FROM account_lease l WHERE l.account = \(table).account AND l.node = ?)
                    OR (hashtext(\(table).account) & 2147483647) % ? = ? AND NOT EXISTS (
                        SELECT 1 FROM account_lease l JOIN node n ON n.id = l.node WHERE l.account = \(table).account AND n.dead IS NULL
                    )
                )
                """,
                ["\(node)", count, part]
            )
        }
    }
}
