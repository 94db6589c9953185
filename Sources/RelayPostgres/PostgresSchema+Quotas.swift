// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
extension PostgresSchema {
    /// What the third version adds. See `SQLiteSchema` for the meaning of the columns.
    static let quotas = [
        """
        CREATE TABLE quotas (
            account TEXT COLLATE "C" NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
            name TEXT COLLATE "C" NOT NULL,
            value BIGINT NOT NULL CHECK (value > 0),
            PRIMARY KEY (account, name)
        )
        """
    ]
}
#endif
