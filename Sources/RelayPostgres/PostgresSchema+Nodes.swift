// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
extension PostgresSchema {
    /// The nodes, and who serves which account.
    static let nodes = [
        // Each start of a node has a row. `beat` grows every second, unless the node is `dead`, which stays. Nodes are also known by a
        // number that fits into a tunnel's id. `schema` is the version of the schema that its software works with.
        """
        CREATE TABLE node (
            id UUID PRIMARY KEY,
            number INTEGER GENERATED ALWAYS AS IDENTITY UNIQUE,
            url TEXT COLLATE "C",
            version TEXT COLLATE "C" NOT NULL,
            schema BIGINT NOT NULL,
            started BIGINT NOT NULL,
            beat BIGINT NOT NULL DEFAULT 0,
            dead BIGINT,
            takes SMALLINT NOT NULL DEFAULT 1 CHECK (takes IN (0, 1)),
            history TEXT COLLATE "C",
            draining SMALLINT NOT NULL DEFAULT 0 CHECK (draining IN (0, 1))
        ) WITH (fillfactor = 50)
        """,
        // `node` serves the account; without one nobody does. `epoch` grows whenever another node takes it.
        """
        CREATE TABLE account_lease (
            account TEXT COLLATE "C" PRIMARY KEY,
            node UUID,
            epoch BIGINT NOT NULL
        ) WITH (fillfactor = 80)
        """,
        "CREATE INDEX account_lease_node ON account_lease (node)",
        // What others ask of an account. Its node carries it out, and stores the answer in the same transaction.
        """
        CREATE TABLE account_request (
            id BIGINT PRIMARY KEY,
            account TEXT COLLATE "C" NOT NULL,
            body TEXT NOT NULL,
            made BIGINT NOT NULL,
            answer TEXT,
            answered BIGINT,
            CHECK ((answer IS NULL) = (answered IS NULL))
        )
        """,
        "CREATE INDEX account_request_open ON account_request (made, id) WHERE answer IS NULL",
        "CREATE INDEX account_request_answered ON account_request (answered) WHERE answered IS NOT NULL",
        // The last batch that a thread of a node has written, and how often its connection was replaced.
        """
        CREATE TABLE store_writer (
            node UUID NOT NULL,
            thread SMALLINT NOT NULL,
            batch BIGINT NOT NULL,
            checks BIGINT NOT NULL,
            PRIMARY KEY (node, thread)
        ) WITH (fillfactor = 50)
        """,
    ]

    /// What the second version adds.
    static let sharedByNodes = [
        // How many accounts the node serves, as its beats say.
        "ALTER TABLE node ADD COLUMN accounts BIGINT",
        // The token of a push credential, which all nodes use.
        """
        CREATE TABLE push_token (
            credential TEXT COLLATE "C" PRIMARY KEY REFERENCES push_credentials (id) ON DELETE CASCADE,
            version BIGINT NOT NULL,
            sealed BYTEA NOT NULL
        )
        """,
    ]
}
#endif
