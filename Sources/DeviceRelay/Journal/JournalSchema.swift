// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import GRDB

/// The schema. A released migration never changes. Changes are appended as new migrations.
enum JournalSchema {
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1 commands, peers, registrations, invitations") { database in
            try database.execute(sql: first)
        }
        migrator.registerMigration("2 registrations of peers") { database in
            try database.execute(sql: second)
        }
        migrator.registerMigration("3 commands on direct paths") { database in
            try database.execute(sql: third)
        }
        migrator.registerMigration("4 time of the last listing") { database in
            try database.execute(sql: fourth)
        }
        migrator.registerMigration("5 addresses of peers") { database in
            try database.execute(sql: fifth)
        }
        migrator.registerMigration("6 commands of several processes") { database in
            try database.execute(sql: sixth)
        }
        migrator.registerMigration("7 submissions, changes of commands") { database in
            try database.execute(sql: seventh)
        }
        migrator.registerMigration("8 approved endpoints") { database in
            try database.execute(sql: eighth)
        }
        return migrator
    }

    /// The condition for a command that has not ended. Queries must use exactly this text, so that SQLite can use the partial index
    /// `sent_commands_open`.
    static let isOpen = "(state = 'prepared' OR state = 'sent' OR state = 'accepted')"

    /// Endpoint ids and digests have 32 bytes, command ids 16. Times are milliseconds since 1970. Numbers are unsigned 64-bit with the top
    /// bit flipped, so that SQL sorts them correctly. Blobs are in separate tables, so that a change of state does not write them again.
    /// The check constraints state in which states optional columns are set.
    ///
    /// For each new command, one query counts the open commands and another finds the earlier ones of its lane. One small index, of the
    /// open commands only, serves both. The condition uses `OR`, because SQLite builds a temporary table for `IN` with more than two
    /// values. A voucher may be for an endpoint that is known and not pinned. A revocation that is `unsent` has not been sent to the relay
    /// yet.
    private static let first = """
        CREATE TABLE meta (
            id INTEGER PRIMARY KEY NOT NULL CHECK (id = 1),
            endpoint BLOB NOT NULL CHECK (length(endpoint) = 32),
            relay_offset INTEGER,
            account TEXT,
            record BLOB,
            relay_urls TEXT NOT NULL DEFAULT '',
            -- The registration for notifications, as JSON
            notification TEXT,
            enumerated INTEGER NOT NULL DEFAULT 0 CHECK (enumerated IN (0, 1)),
            inviter BLOB CHECK (inviter IS NULL OR length(inviter) = 32),
            -- When this journal took the place of one that was lost, by the local clock
            replaced INTEGER
        );

        CREATE TABLE sent_lanes (
            target BLOB NOT NULL CHECK (length(target) = 32),
            app TEXT NOT NULL,
            highest INTEGER NOT NULL,
            PRIMARY KEY (target, app)
        ) WITHOUT ROWID;
        CREATE TABLE sent_commands (
            id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 16),
            target BLOB NOT NULL,
            app TEXT NOT NULL,
            number INTEGER NOT NULL,
            created INTEGER NOT NULL,
            expires INTEGER NOT NULL,
            digest BLOB NOT NULL CHECK (length(digest) = 32),
            size INTEGER NOT NULL CHECK (size > 0),
            cancel_requested INTEGER NOT NULL CHECK (cancel_requested IN (0, 1)),
            signings INTEGER NOT NULL CHECK (signings > 0),
            state TEXT NOT NULL CHECK (\(isOpen) OR state = 'withdrawn' OR state = 'refused' OR state = 'final'),
            progress TEXT CHECK (progress = 'accepted' OR progress = 'waking' OR progress = 'delivered'),
            rejection TEXT,
            rejection_limit TEXT,
            limit_allowed INTEGER,
            limit_requested INTEGER,
            may_have_run INTEGER CHECK (may_have_run IN (0, 1)),
            outcome TEXT,
            outcome_reason TEXT,
            attested_by TEXT CHECK (attested_by IN ('target', 'relay')),
            receipt BLOB,
            reply BLOB,
            FOREIGN KEY (target, app) REFERENCES sent_lanes (target, app),
            CHECK ((state = 'accepted') = (progress IS NOT NULL)),
            CHECK ((state = 'refused') = (rejection IS NOT NULL)),
            CHECK ((state = 'refused') = (may_have_run IS NOT NULL)),
            CHECK ((state = 'final') = (outcome IS NOT NULL)),
            CHECK ((state = 'final') = (attested_by IS NOT NULL)),
            CHECK ((receipt IS NOT NULL) = (attested_by IS NOT NULL AND attested_by = 'target')),
            CHECK (reply IS NULL OR receipt IS NOT NULL),
            CHECK ((rejection_limit IS NULL) = (limit_allowed IS NULL) AND (rejection_limit IS NULL) = (limit_requested IS NULL))
        ) WITHOUT ROWID;
        CREATE INDEX sent_commands_open ON sent_commands (target, app, number, state) WHERE \(isOpen);
        CREATE TABLE sent_blobs (
            id BLOB PRIMARY KEY NOT NULL REFERENCES sent_commands (id) ON DELETE CASCADE,
            blob BLOB NOT NULL,
            body BLOB NOT NULL,
            target BLOB NOT NULL
        );

        CREATE TABLE lanes (
            sender BLOB NOT NULL CHECK (length(sender) = 32),
            app TEXT NOT NULL,
            highest INTEGER NOT NULL,
            -- The latest accepted id
            latest BLOB NOT NULL CHECK (length(latest) = 16),
            PRIMARY KEY (sender, app)
        ) WITHOUT ROWID;
        CREATE TABLE received_commands (
            sender BLOB NOT NULL CHECK (length(sender) = 32),
            id BLOB NOT NULL CHECK (length(id) = 16),
            app TEXT NOT NULL,
            number INTEGER NOT NULL,
            created INTEGER NOT NULL,
            expires INTEGER NOT NULL,
            digest BLOB NOT NULL CHECK (length(digest) = 32),
            size INTEGER NOT NULL CHECK (size > 0),
            state TEXT NOT NULL CHECK (state = 'received' OR state = 'handling' OR state = 'answered'),
            outcome TEXT,
            outcome_reason TEXT,
            PRIMARY KEY (sender, id),
            CHECK ((state = 'answered') = (outcome IS NOT NULL))
        ) WITHOUT ROWID;
        CREATE TABLE received_blobs (
            sender BLOB NOT NULL,
            id BLOB NOT NULL,
            blob BLOB NOT NULL,
            record BLOB NOT NULL,
            PRIMARY KEY (sender, id),
            FOREIGN KEY (sender, id) REFERENCES received_commands (sender, id) ON DELETE CASCADE
        );
        CREATE TABLE results (
            sender BLOB NOT NULL,
            id BLOB NOT NULL,
            receipt BLOB NOT NULL,
            reply BLOB,
            PRIMARY KEY (sender, id),
            FOREIGN KEY (sender, id) REFERENCES received_commands (sender, id) ON DELETE CASCADE
        );

        CREATE TABLE registrations (
            app TEXT PRIMARY KEY NOT NULL,
            registration BLOB NOT NULL
        ) WITHOUT ROWID;
        CREATE TABLE pins (
            endpoint BLOB PRIMARY KEY NOT NULL CHECK (length(endpoint) = 32),
            record BLOB NOT NULL,
            pinned INTEGER NOT NULL,
            knowledge TEXT NOT NULL CHECK (knowledge = 'verified' OR knowledge = 'firstSeen')
        );
        CREATE TABLE vouchers (
            endpoint BLOB PRIMARY KEY NOT NULL CHECK (length(endpoint) = 32)
        ) WITHOUT ROWID;
        CREATE TABLE revocations (
            endpoint BLOB PRIMARY KEY NOT NULL CHECK (length(endpoint) = 32),
            revocation BLOB NOT NULL,
            unsent INTEGER NOT NULL CHECK (unsent IN (0, 1))
        );
        -- Endpoints whose revocation only the relay states, until it lists them again
        CREATE TABLE shut_out (
            endpoint BLOB PRIMARY KEY NOT NULL CHECK (length(endpoint) = 32),
            time INTEGER NOT NULL
        ) WITHOUT ROWID;
        CREATE TABLE invitations (
            secret BLOB PRIMARY KEY NOT NULL CHECK (length(secret) = 32),
            ends INTEGER NOT NULL
        ) WITHOUT ROWID;
        """

    /// The registrations of pinned endpoints, as their endpoints signed them. Without the relay they say what a device's apps take.
    private static let second = """
        CREATE TABLE peer_registrations (
            endpoint BLOB NOT NULL REFERENCES pins (endpoint) ON DELETE CASCADE,
            position INTEGER NOT NULL,
            registration BLOB NOT NULL,
            PRIMARY KEY (endpoint, position)
        ) WITHOUT ROWID;
        """

    /// Whether the target may have got a command without the relay; whether a command was first offered without the relay; and whether the
    /// relay or the sender has the result of an answered command, which is kept for late offers.
    private static let third = """
        ALTER TABLE sent_commands ADD COLUMN direct INTEGER NOT NULL DEFAULT 0 CHECK (direct IN (0, 1));
        ALTER TABLE received_commands ADD COLUMN direct INTEGER NOT NULL DEFAULT 0 CHECK (direct IN (0, 1));
        ALTER TABLE received_commands ADD COLUMN settled INTEGER NOT NULL DEFAULT 0 CHECK (settled IN (0, 1));
        """

    /// When the relay has last listed all endpoints, by its time; not set before the first time. Earlier versions did not store it.
    private static let fourth = """
        ALTER TABLE meta ADD COLUMN listed INTEGER;
        UPDATE meta SET listed = CAST(strftime('%s', 'now') AS INTEGER) * 1000 WHERE enumerated = 1;
        """

    /// Where a pinned endpoint was reached last without the relay.
    private static let fifth = """
        CREATE TABLE peer_addresses (
            endpoint BLOB PRIMARY KEY NOT NULL REFERENCES pins (endpoint) ON DELETE CASCADE,
            address BLOB NOT NULL CHECK (length(address) = 4 OR length(address) = 16),
            port INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),
            time INTEGER NOT NULL
        ) WITHOUT ROWID;
        """

    /// Whether another process than the one that has stored a command may have sent it, too.
    private static let sixth = """
        ALTER TABLE sent_commands ADD COLUMN shared INTEGER NOT NULL DEFAULT 0 CHECK (shared IN (0, 1));
        """

    /// The keys of submissions, so that a repeat is the same command; and the changes of the commands' states, in their order. The triggers
    /// write each change in the transaction that makes it, in every process. The step from `prepared` to `sent` is not a change.
    private static let seventh = """
        CREATE TABLE submissions (
            principal TEXT NOT NULL,
            key TEXT NOT NULL,
            -- 1 for the launch of the fallback after the app there did not support the URI
            attempt INTEGER NOT NULL CHECK (attempt IN (0, 1)),
            request BLOB NOT NULL CHECK (length(request) = 32),
            command BLOB NOT NULL CHECK (length(command) = 16),
            ends INTEGER NOT NULL,
            PRIMARY KEY (principal, key, attempt)
        ) WITHOUT ROWID;
        CREATE INDEX submissions_command ON submissions (command);
        CREATE TABLE command_changes (
            sequence INTEGER PRIMARY KEY AUTOINCREMENT,
            id BLOB NOT NULL,
            state TEXT NOT NULL,
            progress TEXT,
            outcome TEXT
        );
        CREATE TRIGGER command_added AFTER INSERT ON sent_commands BEGIN
            INSERT INTO command_changes (id, state, progress, outcome) VALUES (NEW.id, NEW.state, NEW.progress, NEW.outcome);
            DELETE FROM command_changes WHERE sequence <= last_insert_rowid() - \(CommandChange.kept);
        END;
        CREATE TRIGGER command_changed AFTER UPDATE OF state, progress ON sent_commands
        WHEN (NEW.state IS NOT OLD.state OR NEW.progress IS NOT OLD.progress) AND NEW.state <> 'sent' BEGIN
            INSERT INTO command_changes (id, state, progress, outcome) VALUES (NEW.id, NEW.state, NEW.progress, NEW.outcome);
            DELETE FROM command_changes WHERE sequence <= last_insert_rowid() - \(CommandChange.kept);
        END;
        """

    /// The endpoints that are known by the word of another one or by their device, with all that proves it. What they are worth is found
    /// anew each time, from the pins and revocations of that time.
    private static let eighth = """
        CREATE TABLE approved (
            endpoint BLOB PRIMARY KEY NOT NULL CHECK (length(endpoint) = 32),
            record BLOB NOT NULL
        );
        CREATE TABLE approved_parts (
            endpoint BLOB NOT NULL REFERENCES approved (endpoint) ON DELETE CASCADE,
            kind TEXT NOT NULL CHECK (kind = 'voucher' OR kind = 'registration'),
            position INTEGER NOT NULL,
            part BLOB NOT NULL,
            PRIMARY KEY (endpoint, kind, position)
        ) WITHOUT ROWID;
        """
}
