-- Expand: months of the ledger that were exported and detached
-- Months that were taken out of the ledger, the oldest first: entries before next_ms of the newest row are in exports alone.
-- The role that owns the tables writes these three tables (months/detaching.py), each row of a month in one transaction
-- with the fact `cut` about it. sums: JSON, by type its entries and credits. Hashes are SHA-256: of the manifest of the
-- export; over all rows of ledger_carried then; over the month's rows of ledger_kept_facts.
CREATE TABLE ledger_cuts (
    next_ms  bigint PRIMARY KEY,
    first_ms bigint NOT NULL,
    cut_ms   bigint NOT NULL,
    entries  bigint NOT NULL,
    sums     text   NOT NULL,
    manifest bytea  NOT NULL,
    carried  bytea  NOT NULL,
    facts    bytea  NOT NULL
);

-- Of each account with detached entries the newest of them, as the ledger had it, and what all of them make together.
CREATE TABLE ledger_carried (
    pubkey       bytea    PRIMARY KEY,
    at_ms        bigint   NOT NULL,
    seq          bigint   NOT NULL,
    type         smallint NOT NULL,
    outcome      smallint NOT NULL,
    amount       bigint   NOT NULL,
    balance      bigint   NOT NULL,
    operation_id bytea    NOT NULL,
    method       text     NOT NULL,
    description  text     NOT NULL,
    parcels      text     NOT NULL,
    hash         bytea    NOT NULL,
    before       bytea    NOT NULL,  -- Hash before it.
    consumed     bigint   NOT NULL,
    last_batch   integer  NOT NULL,
    batches      text     NOT NULL,  -- What is left in each: `3:25 4:10`.
    spent        text     NOT NULL,  -- By each named key that paid: `1:250`.
    tail         bytea    NOT NULL   -- Hashes after the entries before it that stand in one statement with the next one.
);

-- Facts among detached entries: the audit compares the tables of accounts with them.
CREATE TABLE ledger_kept_facts (
    pubkey      bytea  NOT NULL,
    at_ms       bigint NOT NULL,
    seq         bigint NOT NULL,
    method      text   NOT NULL,
    description text   NOT NULL,
    hash        bytea  NOT NULL,
    PRIMARY KEY (pubkey, seq)
);
