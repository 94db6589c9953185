// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import RelayStorage

/// The schema. A released migration never changes; new ones are appended.
enum PostgresSchema {
    /// Each entry leads to the version of its position, from 1.
    static let migrations = [first + nodes + issuer, sharedByNodes, quotas]

    static var version: Int { migrations.count }

    /// See `SQLiteSchema` for the meaning of the columns. Truth values are numbers, as there. Texts are compared by their bytes.
    private static let first = [
        "CREATE TABLE meta (id SMALLINT PRIMARY KEY CHECK (id = 1), began BIGINT NOT NULL)",
        // The relay whose key all nodes have. `history` names the database's system and timeline, in which nothing that was stored is lost.
        """
        CREATE TABLE relay (
            one SMALLINT PRIMARY KEY CHECK (one = 1),
            id TEXT COLLATE "C" CHECK (length(id) = 52),
            history TEXT COLLATE "C"
        )
        """,
        "INSERT INTO relay (one) VALUES (1)",
        "CREATE TABLE probes (number BIGINT NOT NULL)",
        "INSERT INTO probes (number) VALUES (0)",
        """
        CREATE TABLE accounts (
            id TEXT COLLATE "C" PRIMARY KEY CHECK (length(id) = 32),
            created BIGINT NOT NULL,
            name TEXT COLLATE "C" CHECK (length(name) BETWEEN 1 AND 64),
            disabled SMALLINT NOT NULL DEFAULT 0 CHECK (disabled IN (0, 1))
        )
        """,
        "CREATE UNIQUE INDEX accounts_name ON accounts (name) WHERE name IS NOT NULL",
        """
        CREATE TABLE removed_identities (
            issuer TEXT COLLATE "C" NOT NULL,
            subject TEXT COLLATE "C" NOT NULL,
            removed BIGINT NOT NULL,
            PRIMARY KEY (issuer, subject)
        )
        """,
        "CREATE TABLE revoked_tokens (digest TEXT COLLATE \"C\" PRIMARY KEY, ends BIGINT NOT NULL)",
        """
        CREATE TABLE identities (
            issuer TEXT COLLATE "C" NOT NULL,
            subject TEXT COLLATE "C" NOT NULL,
            account TEXT COLLATE "C" NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
            linker BYTEA CHECK (length(linker) = 32),
            added BIGINT NOT NULL,
            PRIMARY KEY (issuer, subject)
        )
        """,
        "CREATE INDEX identities_account ON identities (account)",
        """
        CREATE TABLE endpoints (
            id BYTEA PRIMARY KEY CHECK (length(id) = 32),
            account TEXT COLLATE "C" NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
            version BIGINT NOT NULL,
            record BYTEA NOT NULL,
            has_hosted SMALLINT NOT NULL CHECK (has_hosted IN (0, 1)),
            departure TEXT COLLATE "C",
            departed BIGINT,
            system BYTEA NOT NULL CHECK (length(system) = 32),
            thumbprint TEXT COLLATE "C" NOT NULL CHECK (length(thumbprint) = 43),
            established SMALLINT NOT NULL CHECK (established IN (0, 1)),
            root SMALLINT NOT NULL CHECK (root IN (0, 1)),
            joined BIGINT NOT NULL,
            inviter BYTEA CHECK (length(inviter) = 32),
            address TEXT COLLATE "C",
            issuer TEXT COLLATE "C",
            session TEXT COLLATE "C",
            UNIQUE (account, id),
            CHECK ((departure IS NULL) = (departed IS NULL)),
            CHECK ((issuer IS NULL) = (session IS NULL))
        )
        """,
        "CREATE INDEX endpoints_thumbprint ON endpoints (thumbprint)",
        """
        CREATE TABLE registrations (
            endpoint BYTEA NOT NULL REFERENCES endpoints (id) ON DELETE CASCADE,
            app TEXT COLLATE "C" NOT NULL,
            version BIGINT NOT NULL,
            registration BYTEA NOT NULL,
            PRIMARY KEY (endpoint, app)
        )
        """,
        """
        CREATE TABLE vouchers (
            account TEXT COLLATE "C" NOT NULL,
            endpoint BYTEA NOT NULL,
            giver BYTEA NOT NULL,
            voucher BYTEA NOT NULL,
            PRIMARY KEY (endpoint, giver),
            FOREIGN KEY (account, endpoint) REFERENCES endpoints (account, id) ON DELETE CASCADE,
            FOREIGN KEY (account, giver) REFERENCES endpoints (account, id) ON DELETE CASCADE
        )
        """,
        "CREATE INDEX vouchers_giver ON vouchers (account, giver)",
        """
        CREATE TABLE pushes (
            endpoint BYTEA PRIMARY KEY CHECK (length(endpoint) = 32),
            account TEXT COLLATE "C" NOT NULL,
            app TEXT COLLATE "C" NOT NULL,
            name TEXT COLLATE "C" NOT NULL,
            channel TEXT COLLATE "C" NOT NULL,
            polls SMALLINT NOT NULL CHECK (polls IN (0, 1)),
            registered BIGINT NOT NULL,
            gone SMALLINT NOT NULL CHECK (gone IN (0, 1)),
            first_wake BIGINT,
            last_wake BIGINT,
            last_class TEXT COLLATE "C" CHECK (last_class IN ('urgent', 'background')),
            accepted BIGINT,
            suppressed BIGINT,
            response BIGINT,
            due BIGINT,
            refused SMALLINT NOT NULL DEFAULT 0 CHECK (refused IN (0, 1)),
            names SMALLINT NOT NULL DEFAULT 0 CHECK (names IN (0, 1)),
            CHECK ((last_wake IS NULL) = (last_class IS NULL)),
            FOREIGN KEY (account, endpoint) REFERENCES endpoints (account, id) ON DELETE CASCADE
        )
        """,
        "CREATE INDEX pushes_account ON pushes (account, endpoint)",
        "CREATE INDEX pushes_due ON pushes (due) WHERE due IS NOT NULL",
        """
        CREATE TABLE revoked (
            id BYTEA PRIMARY KEY CHECK (length(id) = 32),
            account TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
            revoker BYTEA CHECK (length(revoker) = 32),
            revocation BYTEA,
            time BIGINT NOT NULL,
            kept SMALLINT NOT NULL CHECK (kept IN (0, 1)),
            thumbprint TEXT COLLATE "C" NOT NULL CHECK (length(thumbprint) = 43),
            issuer TEXT COLLATE "C",
            session TEXT COLLATE "C",
            logins_ended SMALLINT NOT NULL CHECK (logins_ended IN (0, 1)),
            CHECK ((revoker IS NULL) = (revocation IS NULL)),
            CHECK ((issuer IS NULL) = (session IS NULL))
        )
        """,
        "CREATE INDEX revoked_account ON revoked (account, time)",
        "CREATE INDEX revoked_logins ON revoked (time) WHERE logins_ended = 0",
        """
        CREATE TABLE commands (
            sequence BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            account TEXT COLLATE "C" NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
            sender BYTEA NOT NULL CHECK (length(sender) = 32),
            id BYTEA NOT NULL CHECK (length(id) = 16),
            target BYTEA NOT NULL CHECK (length(target) = 32),
            app TEXT COLLATE "C" NOT NULL,
            number BIGINT NOT NULL,
            created BIGINT NOT NULL,
            expires BIGINT NOT NULL,
            digest BYTEA NOT NULL,
            size BIGINT NOT NULL,
            urgent SMALLINT NOT NULL CHECK (urgent IN (0, 1)),
            state SMALLINT NOT NULL CHECK (state BETWEEN 0 AND 2),
            cancel_requested SMALLINT NOT NULL,
            ended BIGINT,
            outcome TEXT COLLATE "C",
            deadline BIGINT NOT NULL,
            receipt BYTEA,
            reply BYTEA,
            blob BYTEA,
            CHECK ((state = 2) = (ended IS NOT NULL AND outcome IS NOT NULL)),
            CHECK ((state = 2) = (blob IS NULL))
        ) WITH (autovacuum_vacuum_scale_factor = 0.05)
        """,
        // Sealed, so that compression is in vain.
        "ALTER TABLE commands ALTER COLUMN reply SET STORAGE EXTERNAL",
        "ALTER TABLE commands ALTER COLUMN blob SET STORAGE EXTERNAL",
        "CREATE UNIQUE INDEX commands_key ON commands (account, sender, id)",
        "CREATE INDEX commands_lane ON commands (account, sender, target, app, number)",
        "CREATE INDEX commands_deadline ON commands (deadline)",
        "CREATE INDEX commands_mailbox ON commands (account, target, sequence, size) WHERE state < 2",
        "CREATE INDEX commands_outcomes ON commands (account, sender, sequence) WHERE state = 2",
        """
        CREATE TABLE app_identities (
            id TEXT COLLATE "C" PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 253),
            proof TEXT COLLATE "C" NOT NULL,
            verified BIGINT,
            created BIGINT NOT NULL
        )
        """,
        """
        CREATE TABLE apps (
            app TEXT COLLATE "C" NOT NULL,
            platform TEXT COLLATE "C" NOT NULL,
            identity TEXT COLLATE "C" NOT NULL REFERENCES app_identities (id) ON DELETE CASCADE,
            proven SMALLINT NOT NULL CHECK (proven IN (0, 1)),
            PRIMARY KEY (app, platform)
        )
        """,
        "CREATE INDEX apps_identity ON apps (identity)",
        """
        CREATE TABLE push_credentials (
            id TEXT COLLATE "C" PRIMARY KEY,
            identity TEXT COLLATE "C" NOT NULL REFERENCES app_identities (id) ON DELETE CASCADE,
            type TEXT COLLATE "C" NOT NULL,
            label TEXT COLLATE "C" NOT NULL,
            sealed BYTEA NOT NULL,
            created BIGINT NOT NULL
        )
        """,
        "CREATE INDEX push_credentials_identity ON push_credentials (identity)",
    ]

    /// The lock of migrations. An arbitrary number.
    private static let lock: Int64 = 0x7265_6c61_7964

    /// Brings the database to this software's version.
    static func migrate(_ connection: PostgresConnection) throws {
        try connection.begin()
        // Until the end of the transaction, so that two nodes do not both begin.
        _ = try connection.run("SELECT pg_advisory_xact_lock(?)", [.integer(lock)])
        try connection.send("CREATE TABLE IF NOT EXISTS schema (version BIGINT NOT NULL, oldest BIGINT NOT NULL)", [], mayWrite: true)
        let found = try connection.run("SELECT version, oldest FROM schema", []).rows.first
        let present = (version: try found?.count(0) ?? 0, oldest: try found?.count(1) ?? 0)
        guard present.oldest <= version else { throw SchemaTooNew() }
        for migration in migrations.dropFirst(present.version) {
            for statement in migration { try connection.send(statement, [], mayWrite: true) }
        }
        if found == nil {
            try connection.send("INSERT INTO schema (version, oldest) VALUES (?, 1)", [.integer(Int64(version))], mayWrite: true)
        } else if present.version < version {
            try connection.send("UPDATE schema SET version = ?", [.integer(Int64(version))], mayWrite: true)
        }
        try connection.commit()
    }

    /// The database was written by a version that this one cannot work beside.
    struct SchemaTooNew: Error {}
}
#endif
