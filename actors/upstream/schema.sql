-- Tables of the nodes: what an operator has changed about them, on top of the settings, and which process has taken
-- that over.

CREATE TABLE node_changes (
    id         text        PRIMARY KEY,
    sealed     bytea,                            -- URLs of an added node; NULL: the settings have the node.
    roles      text[]      NOT NULL DEFAULT '{}',
    weight     integer     CHECK (weight BETWEEN 0 AND 1000),  -- NULL: as in the settings.
    is_drained boolean     NOT NULL DEFAULT false,
    is_removed boolean     NOT NULL DEFAULT false,
    network    text        NOT NULL DEFAULT '',  -- Genesis hash of the network when the node was added.
    changed_at timestamptz NOT NULL DEFAULT now()
);

-- One row. version: of all changes; its lock puts commands in an order. network: as the nodes told it last.
CREATE TABLE node_versions (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    version bigint  NOT NULL DEFAULT 0,
    network text    NOT NULL DEFAULT ''
);

-- What each process tells every few seconds. Nothing here must survive a crash.
CREATE UNLOGGED TABLE node_reports (
    process text        PRIMARY KEY,
    version bigint      NOT NULL,
    report  jsonb       NOT NULL,
    told_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
