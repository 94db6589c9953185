// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayStorage

// Used proofs and challenges, and attempts.
extension SQLIssuerTransaction: AttemptTransaction {
    func use(_ id: Digest256, until end: Milliseconds) throws -> Bool {
        try database.changes(
            "INSERT INTO issuer_used (id, ends) VALUES (?, ?) ON CONFLICT (id) DO NOTHING",
            [Data(id.bytes), end.count]
        ) > 0
    }

    func attempts(_ id: Digest256) throws -> Attempts? {
        try database.first("SELECT count, time, blocked FROM issuer_attempts WHERE id = ?", [Data(id.bytes)]) { row in
            Attempts(count: try row.count(0), time: try row.time(1), blockedUntil: try row.time(2))
        }
    }

    func heldAttempts(_ id: Digest256, now: Milliseconds) throws -> Attempts? {
        // It locks the row. What is read then is what the last transaction has stored.
        try database.execute(
            """
            INSERT INTO issuer_attempts (id, count, time, blocked) VALUES (?, 0, ?, 0)
            ON CONFLICT (id) DO UPDATE SET count = issuer_attempts.count
            """,
            [Data(id.bytes), now.count]
        )
        return try attempts(id)
    }

    func set(_ attempts: Attempts, _ id: Digest256) throws {
        try database.execute(
            "UPDATE issuer_attempts SET count = ?, time = ?, blocked = ? WHERE id = ?",
            [attempts.count, attempts.time.count, attempts.blockedUntil.count, Data(id.bytes)]
        )
    }

    func takeAttemptBack(_ id: Digest256) throws {
        try database.execute("UPDATE issuer_attempts SET count = count - 1, blocked = 0 WHERE id = ? AND count > 0", [Data(id.bytes)])
    }

    func removeAttempts(_ id: Digest256) throws { try database.execute("DELETE FROM issuer_attempts WHERE id = ?", [Data(id.bytes)]) }

    func forgetEnded(before now: Milliseconds) throws {
        try database.execute("DELETE FROM issuer_used WHERE ends <= ?", [now.count - UsedOnce.memory])
        try database.execute("DELETE FROM issuer_attempts WHERE time <= ?", [now.count - Attempts.memory])
    }
}
