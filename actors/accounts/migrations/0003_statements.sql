-- Expand: signed statements of the ledger, and the keys that sign them
-- Signed statements of what the ledger had: one series for each index of an owner. Append-only.
CREATE TABLE account_statements (
    series      integer NOT NULL,
    number    bigint  NOT NULL,  -- From 1 without gaps.
    at_ms     bigint  NOT NULL,
    text      text    NOT NULL,  -- What is signed.
    key_id    text    NOT NULL,
    signature bytea   NOT NULL,
    leaves    bytea   NOT NULL,  -- One of each account with new entries (actors/receipts/statements.py).
    PRIMARY KEY (series, number)
);
CREATE INDEX account_statements_at_ms ON account_statements (at_ms);

-- The newest entry of each account that is in a statement, and its time.
CREATE TABLE account_seals (
    pubkey bytea  PRIMARY KEY,
    seq    bigint NOT NULL,
    at_ms  bigint NOT NULL
) WITH (fillfactor = 50);  -- Changes with each statement, on its own page.

-- Keys that sign statements. sealed: the private half, encrypted.
CREATE TABLE ledger_keys (
    id         text   PRIMARY KEY,
    public     bytea  NOT NULL,
    sealed     bytea  NOT NULL,
    made_ms    bigint NOT NULL,
    retired_ms bigint            -- NULL: it signs.
);
CREATE UNIQUE INDEX ledger_keys_signing ON ledger_keys ((true)) WHERE retired_ms IS NULL;

-- An account whose newest entries are in a statement that is being written.
CREATE TYPE accounts_seal AS (
    pubkey bytea,
    first  bigint,
    last   bigint,
    at_ms  bigint  -- Of the last entry.
);
