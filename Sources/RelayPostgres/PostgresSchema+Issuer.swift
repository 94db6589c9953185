// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
extension PostgresSchema {
    /// The issuer's tables. See `SQLiteIssuerStore.migrator` for the same in SQLite.
    static let issuer = [
        """
        CREATE TABLE "user" (
            subject TEXT COLLATE "C" PRIMARY KEY CHECK (length(subject) BETWEEN 16 AND 64),
            name TEXT COLLATE "C" NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 64),
            key TEXT COLLATE "C" NOT NULL UNIQUE,
            created BIGINT NOT NULL
        )
        """,
        """
        CREATE TABLE password (
            subject TEXT COLLATE "C" PRIMARY KEY REFERENCES "user" (subject) ON DELETE CASCADE,
            hash TEXT COLLATE "C" NOT NULL CHECK (hash LIKE '$scrypt$%')
        )
        """,
        """
        CREATE TABLE set_up (
            token BYTEA PRIMARY KEY CHECK (length(token) = 32),
            kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('link', 'reset', 'recovery')),
            subject TEXT COLLATE "C" NOT NULL UNIQUE REFERENCES "user" (subject) ON DELETE CASCADE,
            expires BIGINT NOT NULL
        )
        """,
        """
        CREATE TABLE recovery_code (
            code BYTEA PRIMARY KEY CHECK (length(code) = 32),
            subject TEXT COLLATE "C" NOT NULL REFERENCES "user" (subject) ON DELETE CASCADE
        )
        """,
        "CREATE INDEX recovery_code_subject ON recovery_code (subject)",
        """
        CREATE TABLE passkey (
            id BYTEA PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 1023),
            subject TEXT COLLATE "C" NOT NULL REFERENCES "user" (subject) ON DELETE CASCADE,
            algorithm BIGINT NOT NULL,
            key BYTEA NOT NULL,
            name TEXT COLLATE "C" NOT NULL,
            created BIGINT NOT NULL,
            counter BIGINT NOT NULL CHECK (counter BETWEEN 0 AND 4294967295)
        )
        """,
        "CREATE INDEX passkey_subject ON passkey (subject)",
        """
        CREATE TABLE web_session (
            id BYTEA PRIMARY KEY CHECK (length(id) = 32),
            subject TEXT COLLATE "C" NOT NULL REFERENCES "user" (subject) ON DELETE CASCADE,
            agent TEXT COLLATE "C" NOT NULL,
            created BIGINT NOT NULL,
            used BIGINT NOT NULL
        )
        """,
        "CREATE INDEX web_session_subject ON web_session (subject, used)",
        "CREATE INDEX web_session_used ON web_session (used)",
        """
        CREATE TABLE event (
            id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            subject TEXT COLLATE "C" NOT NULL REFERENCES "user" (subject) ON DELETE CASCADE,
            kind TEXT COLLATE "C" NOT NULL,
            detail TEXT COLLATE "C" NOT NULL,
            time BIGINT NOT NULL,
            count BIGINT NOT NULL DEFAULT 1
        )
        """,
        "CREATE INDEX event_subject ON event (subject, id)",
        """
        CREATE TABLE login (
            id BYTEA PRIMARY KEY CHECK (length(id) = 16),
            session TEXT COLLATE "C" NOT NULL UNIQUE CHECK (length(session) = 22),
            subject TEXT COLLATE "C" NOT NULL REFERENCES "user" (subject) ON DELETE CASCADE,
            client TEXT COLLATE "C" NOT NULL,
            scopes TEXT COLLATE "C" NOT NULL CHECK (length(scopes) > 0),
            device TEXT COLLATE "C" NOT NULL,
            key TEXT COLLATE "C" CHECK (length(key) = 43),
            invited_by TEXT COLLATE "C" CHECK (length(invited_by) = 52),
            created BIGINT NOT NULL,
            rotated BIGINT NOT NULL,
            current BIGINT NOT NULL CHECK (current > 0),
            revoked BIGINT,
            endpoint_revoked SMALLINT NOT NULL DEFAULT 0 CHECK (endpoint_revoked IN (0, 1)),
            link_reused SMALLINT NOT NULL DEFAULT 0 CHECK (link_reused IN (0, 1))
        )
        """,
        "CREATE INDEX login_subject ON login (subject, revoked, rotated)",
        "CREATE INDEX login_key ON login (key) WHERE key IS NOT NULL",
        "CREATE INDEX login_rotated ON login (rotated)",
        "CREATE INDEX login_revoked ON login (revoked) WHERE revoked IS NOT NULL",
        """
        CREATE TABLE invitation (
            code BYTEA PRIMARY KEY CHECK (length(code) = 32),
            subject TEXT COLLATE "C" NOT NULL REFERENCES "user" (subject) ON DELETE CASCADE,
            inviter TEXT COLLATE "C" CHECK (length(inviter) = 52),
            inviter_key TEXT COLLATE "C" CHECK (length(inviter_key) = 43),
            expires BIGINT NOT NULL,
            redeemed SMALLINT NOT NULL DEFAULT 0 CHECK (redeemed IN (0, 1)),
            key TEXT COLLATE "C" CHECK (length(key) = 43),
            login BYTEA REFERENCES login (id) ON DELETE SET NULL,
            CHECK ((inviter IS NULL) = (inviter_key IS NULL)),
            CHECK (redeemed = 1 OR (key IS NULL AND login IS NULL))
        )
        """,
        "CREATE INDEX invitation_subject ON invitation (subject)",
        "CREATE INDEX invitation_inviter ON invitation (inviter_key) WHERE inviter_key IS NOT NULL",
        "CREATE INDEX invitation_login ON invitation (login)",
        "CREATE INDEX invitation_expires ON invitation (expires)",
        """
        CREATE TABLE authorization_code (
            code BYTEA PRIMARY KEY CHECK (length(code) = 32),
            subject TEXT COLLATE "C" NOT NULL REFERENCES "user" (subject) ON DELETE CASCADE,
            client TEXT COLLATE "C" NOT NULL,
            redirect TEXT COLLATE "C" NOT NULL,
            challenge BYTEA NOT NULL CHECK (length(challenge) = 32),
            scopes TEXT COLLATE "C" NOT NULL CHECK (length(scopes) > 0),
            expires BIGINT NOT NULL,
            redeemed SMALLINT NOT NULL DEFAULT 0 CHECK (redeemed IN (0, 1)),
            key TEXT COLLATE "C" CHECK (length(key) = 43),
            login BYTEA REFERENCES login (id) ON DELETE SET NULL,
            CHECK (redeemed = 1 OR (key IS NULL AND login IS NULL))
        )
        """,
        "CREATE INDEX authorization_code_subject ON authorization_code (subject)",
        "CREATE INDEX authorization_code_login ON authorization_code (login)",
        """
        CREATE TABLE device_authorization (
            code BYTEA PRIMARY KEY CHECK (length(code) = 32),
            user_code BYTEA NOT NULL UNIQUE CHECK (length(user_code) = 32),
            client TEXT COLLATE "C" NOT NULL,
            scopes TEXT COLLATE "C" NOT NULL CHECK (length(scopes) > 0),
            device TEXT COLLATE "C" NOT NULL,
            platform TEXT COLLATE "C" NOT NULL,
            network TEXT COLLATE "C" NOT NULL,
            address TEXT COLLATE "C" NOT NULL,
            expires BIGINT NOT NULL,
            decided SMALLINT NOT NULL DEFAULT 0 CHECK (decided IN (0, 1)),
            subject TEXT COLLATE "C" REFERENCES "user" (subject) ON DELETE CASCADE,
            CHECK (decided = 1 OR subject IS NULL)
        )
        """,
        "CREATE INDEX device_authorization_expires ON device_authorization (expires)",
        "CREATE INDEX device_authorization_network ON device_authorization (decided, network, address, expires)",
        "CREATE INDEX device_authorization_subject ON device_authorization (subject)",
        """
        CREATE TABLE resource_server (
            name TEXT COLLATE "C" PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64),
            secret BYTEA NOT NULL CHECK (length(secret) = 32)
        )
        """,
        """
        CREATE TABLE signing_key (
            id TEXT COLLATE "C" PRIMARY KEY CHECK (length(id) = 43),
            sealed BYTEA NOT NULL,
            activates BIGINT NOT NULL
        )
        """,
        // What is used once, and attempts. They are few, and change often.
        "CREATE TABLE issuer_used (id BYTEA PRIMARY KEY CHECK (length(id) = 32), ends BIGINT NOT NULL)",
        "CREATE INDEX issuer_used_ends ON issuer_used (ends)",
        """
        CREATE TABLE issuer_attempts (
            id BYTEA PRIMARY KEY CHECK (length(id) = 32),
            count BIGINT NOT NULL,
            time BIGINT NOT NULL,
            blocked BIGINT NOT NULL
        )
        """,
        "CREATE INDEX issuer_attempts_time ON issuer_attempts (time)",
        "CREATE TABLE seal (one SMALLINT PRIMARY KEY CHECK (one = 1), sealed BYTEA NOT NULL)",
    ]
}
#endif
