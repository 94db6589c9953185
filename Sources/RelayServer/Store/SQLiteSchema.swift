// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import GRDB

/// The schema. A released migration never changes; new ones are appended.
enum SQLiteSchema {
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1 accounts, endpoints, commands") { database in
            try database.execute(sql: first)
        }
        migrator.registerMigration("2 push registrations: refusals and names") { database in
            // Whether the last wake was refused for a reason that lasts.
            try database.execute(sql: "ALTER TABLE pushes ADD COLUMN refused INTEGER NOT NULL DEFAULT 0 CHECK (refused IN (0, 1))")
            // Whether the alert of a wake may name the device and the app that launch.
            try database.execute(sql: "ALTER TABLE pushes ADD COLUMN names INTEGER NOT NULL DEFAULT 0 CHECK (names IN (0, 1))")
        }
        migrator.registerMigration("3 quotas of accounts") { database in
            try database.execute(
                sql: """
                    CREATE TABLE quotas (
                        account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
                        -- Of a limit
                        name TEXT NOT NULL,
                        value INTEGER NOT NULL CHECK (value > 0),
                        PRIMARY KEY (account, name)
                    ) WITHOUT ROWID
                    """
            )
        }
        return migrator
    }

    /// Endpoint ids have 32 bytes, command ids 16. Times are milliseconds since 1970. Versions and numbers are unsigned 64-bit values
    /// with the top bit flipped, so that SQL sorts them correctly.
    ///
    /// A command is one row with few indexes, because each table and each index costs a page write per step of a command. While the blob
    /// exists, updates keep the row's length, so that a blob of many pages stays in place. `state` is 0 stored, 1 offered, 2 final.
    /// Statements avoid `IN` on it: for more than two values SQLite builds a temporary table in every execution.
    private static let first = """
        CREATE TABLE meta (
            id INTEGER PRIMARY KEY NOT NULL CHECK (id = 1),
            began INTEGER NOT NULL,
            -- Grows while the database is used; see `SQLiteStore`
            mark INTEGER NOT NULL DEFAULT 0
        );
        CREATE TABLE accounts (
            id TEXT PRIMARY KEY NOT NULL CHECK (length(id) = 32),
            created INTEGER NOT NULL,
            -- NULL if a token of another issuer created the account
            name TEXT CHECK (length(name) BETWEEN 1 AND 64),
            disabled INTEGER NOT NULL DEFAULT 0 CHECK (disabled IN (0, 1))
        ) WITHOUT ROWID;
        CREATE UNIQUE INDEX accounts_name ON accounts (name) WHERE name IS NOT NULL;
        -- The identities of removed accounts. Their tokens create no account again.
        CREATE TABLE removed_identities (
            issuer TEXT NOT NULL,
            subject TEXT NOT NULL,
            removed INTEGER NOT NULL,
            PRIMARY KEY (issuer, subject)
        ) WITHOUT ROWID;
        CREATE TABLE revoked_tokens (
            digest TEXT PRIMARY KEY NOT NULL,
            ends INTEGER NOT NULL
        ) WITHOUT ROWID;
        CREATE TABLE identities (
            issuer TEXT NOT NULL,
            subject TEXT NOT NULL,
            account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
            -- The endpoint that linked it, which may be revoked later
            linker BLOB CHECK (length(linker) = 32),
            added INTEGER NOT NULL,
            PRIMARY KEY (issuer, subject)
        ) WITHOUT ROWID;
        CREATE INDEX identities_account ON identities (account);

        CREATE TABLE endpoints (
            id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 32),
            account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
            version INTEGER NOT NULL,
            record BLOB NOT NULL,
            has_hosted INTEGER NOT NULL CHECK (has_hosted IN (0, 1)),
            departure TEXT,
            departed INTEGER,
            system BLOB NOT NULL CHECK (length(system) = 32),
            thumbprint TEXT NOT NULL CHECK (length(thumbprint) = 43),
            established INTEGER NOT NULL CHECK (established IN (0, 1)),
            root INTEGER NOT NULL CHECK (root IN (0, 1)),
            joined INTEGER NOT NULL,
            inviter BLOB CHECK (length(inviter) = 32),
            address TEXT,
            issuer TEXT,
            session TEXT,
            UNIQUE (account, id),
            CHECK ((departure IS NULL) = (departed IS NULL)),
            CHECK ((issuer IS NULL) = (session IS NULL))
        );
        CREATE INDEX endpoints_thumbprint ON endpoints (thumbprint);
        CREATE TABLE registrations (
            endpoint BLOB NOT NULL REFERENCES endpoints (id) ON DELETE CASCADE,
            app TEXT NOT NULL,
            version INTEGER NOT NULL,
            registration BLOB NOT NULL,
            PRIMARY KEY (endpoint, app)
        );
        CREATE TABLE vouchers (
            account TEXT NOT NULL,
            endpoint BLOB NOT NULL,
            giver BLOB NOT NULL,
            voucher BLOB NOT NULL,
            PRIMARY KEY (endpoint, giver),
            FOREIGN KEY (account, endpoint) REFERENCES endpoints (account, id) ON DELETE CASCADE,
            FOREIGN KEY (account, giver) REFERENCES endpoints (account, id) ON DELETE CASCADE
        );
        CREATE INDEX vouchers_giver ON vouchers (account, giver);
        -- How an endpoint is woken, and its wakes since it was last connected.
        CREATE TABLE pushes (
            endpoint BLOB PRIMARY KEY NOT NULL CHECK (length(endpoint) = 32),
            account TEXT NOT NULL,
            app TEXT NOT NULL,
            name TEXT NOT NULL,
            -- JSON, as in the message
            channel TEXT NOT NULL,
            polls INTEGER NOT NULL CHECK (polls IN (0, 1)),
            registered INTEGER NOT NULL,
            gone INTEGER NOT NULL CHECK (gone IN (0, 1)),
            first_wake INTEGER,
            last_wake INTEGER,
            last_class TEXT CHECK (last_class IN ('urgent', 'background')),
            accepted INTEGER,
            suppressed INTEGER,
            response INTEGER,
            due INTEGER,
            CHECK ((last_wake IS NULL) = (last_class IS NULL)),
            FOREIGN KEY (account, endpoint) REFERENCES endpoints (account, id) ON DELETE CASCADE
        );
        CREATE INDEX pushes_account ON pushes (account, endpoint);
        CREATE INDEX pushes_due ON pushes (due) WHERE due IS NOT NULL;
        CREATE TABLE revoked (
            id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 32),
            account TEXT NOT NULL REFERENCES accounts (id),
            revoker BLOB CHECK (length(revoker) = 32),
            revocation BLOB,
            time INTEGER NOT NULL,
            kept INTEGER NOT NULL CHECK (kept IN (0, 1)),
            thumbprint TEXT NOT NULL CHECK (length(thumbprint) = 43),
            issuer TEXT,
            session TEXT,
            logins_ended INTEGER NOT NULL CHECK (logins_ended IN (0, 1)),
            CHECK ((revoker IS NULL) = (revocation IS NULL)),
            CHECK ((issuer IS NULL) = (session IS NULL))
        ) WITHOUT ROWID;
        CREATE INDEX revoked_account ON revoked (account, time);
        CREATE INDEX revoked_logins ON revoked (time) WHERE logins_ended = 0;

        CREATE TABLE commands (
            sequence INTEGER PRIMARY KEY NOT NULL,
            account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
            sender BLOB NOT NULL CHECK (length(sender) = 32),
            id BLOB NOT NULL CHECK (length(id) = 16),
            target BLOB NOT NULL CHECK (length(target) = 32),
            app TEXT NOT NULL,
            number INTEGER NOT NULL,
            created INTEGER NOT NULL,
            expires INTEGER NOT NULL,
            digest BLOB NOT NULL,
            size INTEGER NOT NULL,
            urgent INTEGER NOT NULL CHECK (urgent IN (0, 1)),
            state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 2),
            cancel_requested INTEGER NOT NULL,
            ended INTEGER,
            outcome TEXT,
            deadline INTEGER NOT NULL,
            receipt BLOB,
            reply BLOB,
            blob BLOB,
            CHECK ((state = 2) = (ended IS NOT NULL AND outcome IS NOT NULL)),
            CHECK ((state = 2) = (blob IS NULL))
        );
        CREATE UNIQUE INDEX commands_key ON commands (account, sender, id);
        CREATE INDEX commands_lane ON commands (account, sender, target, app, number);
        CREATE INDEX commands_deadline ON commands (deadline);
        CREATE INDEX commands_mailbox ON commands (account, target, sequence, size) WHERE state < 2;
        CREATE INDEX commands_outcomes ON commands (account, sender, sequence) WHERE state = 2;
        -- Cross-device app identities, their apps, and the credentials of their push services.
        CREATE TABLE app_identities (
            id TEXT PRIMARY KEY NOT NULL CHECK (length(id) BETWEEN 1 AND 253),
            proof TEXT NOT NULL,
            verified INTEGER,
            created INTEGER NOT NULL
        ) WITHOUT ROWID;
        -- The key's columns come first: SQLite 3.40 finds a fault in a table with another order.
        CREATE TABLE apps (
            app TEXT NOT NULL,
            platform TEXT NOT NULL,
            identity TEXT NOT NULL REFERENCES app_identities (id) ON DELETE CASCADE,
            proven INTEGER NOT NULL CHECK (proven IN (0, 1)),
            -- An app is of one identity
            PRIMARY KEY (app, platform)
        ) WITHOUT ROWID;
        CREATE INDEX apps_identity ON apps (identity);
        CREATE TABLE push_credentials (
            id TEXT PRIMARY KEY NOT NULL,
            identity TEXT NOT NULL REFERENCES app_identities (id) ON DELETE CASCADE,
            type TEXT NOT NULL,
            label TEXT NOT NULL,
            sealed BLOB NOT NULL,
            created INTEGER NOT NULL
        ) WITHOUT ROWID;
        CREATE INDEX push_credentials_identity ON push_credentials (identity);
        """
}
