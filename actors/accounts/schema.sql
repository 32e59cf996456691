-- Tables of accounts: the owner of each shard, the state of each account, and every movement of credits.
-- Amounts are whole credits and base units of USDC; *_ms are Unix milliseconds; *_at are Unix seconds. Numbers of kinds
-- are in ledger.py and account.py. The owner of an account writes it in groups, through accounts_write_group() and
-- accounts_write_entry() in functions.sql. No other program may change these tables.

CREATE TABLE shard_owner (
    virtual_shard integer PRIMARY KEY,
    epoch         bigint NOT NULL,
    owner         text   NOT NULL,
    -- Index of the actor whose shard this is, whether it runs or not. NULL: nobody has been chosen yet.
    holder        integer
);

-- Each takeover takes one number for all its shards. No two takeovers have the same number.
CREATE SEQUENCE shard_epoch;

CREATE TABLE accounts (
    pubkey              bytea   PRIMARY KEY,
    virtual_shard       integer NOT NULL,
    created_at          bigint  NOT NULL,
    status              text    NOT NULL,
    api_key_hash        bytea   UNIQUE,
    key_prefix          text,
    ref_code            text,
    -- The worth of the referral code when the account captured it, in 1/10,000 of each deposit; NULL without a code.
    ref_bonus_bps       integer,
    requests_per_second integer,
    concurrency         integer,
    last_deposit        jsonb,
    balance             bigint  NOT NULL DEFAULT 0 CHECK (balance >= 0),
    total_consumed      bigint  NOT NULL DEFAULT 0,
    last_batch          integer NOT NULL DEFAULT 0,
    seq                 bigint  NOT NULL DEFAULT 0,
    last_ms             bigint  NOT NULL DEFAULT 0,
    head_hash           bytea   NOT NULL
) WITH (fillfactor = 70);  -- Room on the page: the figures change with every call, the indexed columns never do.

CREATE TABLE credit_batches (
    pubkey     bytea   NOT NULL,
    id         integer NOT NULL,
    source     text    NOT NULL,
    credits    bigint  NOT NULL CHECK (credits > 0),
    remaining  bigint  NOT NULL CHECK (remaining BETWEEN 0 AND credits),
    created_at bigint  NOT NULL,
    expires_at bigint  NOT NULL,
    PRIMARY KEY (pubkey, id)
) WITH (fillfactor = 70);

-- The expiry of a batch never changes, so this index costs the updates of every call nothing.
CREATE INDEX credit_batches_expires_at ON credit_batches (expires_at);

-- Append-only. Partitioned by month of at_ms; accounts_partition() makes the partitions ahead of time.
CREATE TABLE ledger (
    pubkey       bytea    NOT NULL,
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
    PRIMARY KEY (pubkey, at_ms, seq)
) PARTITION BY RANGE (at_ms);

-- For pages by type. Entries that are no charges (type 2) are few, so that this index costs a call nothing. method stands
-- last: refunds of one method are found in the index alone.
CREATE INDEX ledger_other_types ON ledger (pubkey, type, at_ms, seq, method) WHERE type <> 2;

-- The product's role has no right to update or delete entries. The trigger stops the slip of a stronger role's hand.
CREATE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is append-only: a correction is a new entry';
END $$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON ledger
    FOR EACH ROW EXECUTE FUNCTION ledger_is_append_only();

-- Operations that were debited, each once for ever and among all accounts. The ledger is partitioned by month, so that no
-- index of it can say that, and a clock says which month an entry belongs to.
-- at_ms: of the entry; it finds the entry's partition.
CREATE TABLE account_debits (
    operation bytea  PRIMARY KEY,
    at_ms     bigint NOT NULL
);

-- Charges whose answers have not reached their clients yet, as far as the owner knew when it wrote its last group: one
-- row of each replica at each owner. The next owner voids those of a replica that does not link to it.
CREATE TABLE account_edges (
    home        integer NOT NULL,  -- Index of the owner.
    edge        bytea   NOT NULL,
    owners      integer NOT NULL,  -- 0. Earlier releases, whose owners moved no shards, wrote their number.
    epoch       bigint  NOT NULL,
    undelivered bytea   NOT NULL,  -- The second half (8 bytes) of each charge's operation; the first half is the replica.
    PRIMARY KEY (home, edge)
) WITH (fillfactor = 50, toast_tuple_target = 8160);  -- Rewritten with every group, on its own page.

-- Operations that must be unique for ever, whatever month they were made in: voids, refunds, adjustments.
CREATE TABLE account_operations (
    pubkey    bytea    NOT NULL,
    kind      smallint NOT NULL,
    operation bytea    NOT NULL,
    at_ms     bigint   NOT NULL,
    amount    bigint   NOT NULL,
    PRIMARY KEY (pubkey, kind, operation)
);

-- Calls and credits of each account by method and hour: a rollup of the ledger, made by accounts_roll_usage() from its
-- entries and nothing else. A refund takes its call out of the hour in which the call was charged.
CREATE TABLE account_usage (
    pubkey  bytea   NOT NULL,
    hour    integer NOT NULL,  -- Since 1970, of the database's entries.
    method  text    NOT NULL,
    calls   bigint  NOT NULL,
    credits bigint  NOT NULL,
    PRIMARY KEY (pubkey, hour, method)
) WITH (fillfactor = 70);  -- The figures of the present hour change often, the indexed columns never do.

-- How far the rollup of each account is: the newest entry that is in it.
CREATE TABLE account_usage_marks (
    pubkey bytea  PRIMARY KEY,
    at_ms  bigint NOT NULL,
    seq    bigint NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE referral_codes (
    code       text    PRIMARY KEY,
    bonus_bps  integer NOT NULL CHECK (bonus_bps BETWEEN 1 AND 10000),
    created_at bigint  NOT NULL,
    expires_at bigint,           -- NULL: never.
    note       text    NOT NULL
);

-- Token transfers that became credits, each once among all accounts. operation: 64 bytes of signature, four of the
-- transfer's number in its transaction.
CREATE TABLE account_deposits (
    operation        bytea   PRIMARY KEY,
    pubkey           bytea   NOT NULL,
    base_units       bigint  NOT NULL CHECK (base_units > 0),
    credits_per_usdc bigint  NOT NULL,
    credits          bigint  NOT NULL CHECK (credits > 0),
    bonus            bigint  NOT NULL CHECK (bonus >= 0),
    slot             bigint  NOT NULL,
    at_ms            bigint  NOT NULL,
    assigned         boolean NOT NULL,
    -- Of a payment that never became final: the credits taken back, and those that the account did not have any more.
    returned_ms      bigint,
    taken            bigint CHECK (taken >= 0),
    uncollected      bigint CHECK (uncollected >= 0)
);

-- Events for webhooks. Each is written together with the change that it tells. told: taken, in the transaction in which
-- the taker keeps it.
CREATE TABLE account_events (
    id            bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    virtual_shard integer NOT NULL,
    pubkey        bytea   NOT NULL,
    kind          text    NOT NULL,
    subject       bytea   NOT NULL,  -- With kind and account it names one event, such as the end of this batch.
    at_ms         bigint  NOT NULL,
    body          jsonb   NOT NULL,
    told          boolean NOT NULL DEFAULT false,
    UNIQUE (pubkey, kind, subject)
);
CREATE INDEX account_events_untold ON account_events (id) WHERE NOT told;

-- Accounts that were opened, a hash chain for each virtual shard, and referral codes that were made or ended. Append-only,
-- and written by the transaction that makes the fact true. Other facts about an account are entries of its ledger; those
-- that owners of release 0.1.0 wrote are here.
CREATE TABLE account_facts (
    virtual_shard integer NOT NULL,  -- -1: facts about referral codes.
    seq           bigint  NOT NULL,  -- In its shard, from 1 without gaps.
    kind          text    NOT NULL,  -- facts.Kind
    pubkey        bytea   NOT NULL,  -- Empty in facts about referral codes.
    -- JSON. The hash covers these very bytes. ledger_seq: of the account's newest entry then, where its ledger had facts.
    body          text    NOT NULL,
    hash          bytea   NOT NULL,
    PRIMARY KEY (virtual_shard, seq)
);

-- The newest fact of each shard.
CREATE TABLE account_fact_heads (
    virtual_shard integer PRIMARY KEY,
    seq           bigint  NOT NULL,
    hash          bytea   NOT NULL
);

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

-- Named keys of accounts. number: from 1 in each account. Rows stay when their key is deleted: entries of the ledger name
-- them, and neither number nor hash is ever used again. limits: JSON (named_keys.py).
CREATE TABLE account_keys (
    pubkey     bytea   NOT NULL,
    number     integer NOT NULL CHECK (number > 0),
    name       text    NOT NULL,
    key_hash   bytea   NOT NULL UNIQUE,
    key_prefix text    NOT NULL,
    limits     text    NOT NULL,
    created_at bigint  NOT NULL,
    status     text    NOT NULL,
    -- Of the text before the last rotation, and until when it is good.
    old_hash   bytea,
    old_until  bigint  NOT NULL,
    parent     integer NOT NULL,  -- Number of the key from which it was made; 0: of none.
    -- By which keys made from it are checked, and that of the text before; of such a key, its parent's, and its name.
    public     bytea,
    old_public bytea,
    signed_by  bytea,
    block      bytea   UNIQUE,
    PRIMARY KEY (pubkey, number)
);
CREATE INDEX account_keys_public ON account_keys (public) WHERE block IS NULL;
CREATE INDEX account_keys_old_public ON account_keys (old_public) WHERE old_public IS NOT NULL;
CREATE INDEX account_keys_old_hash ON account_keys (old_hash) WHERE old_hash IS NOT NULL;

-- What each named key has spent, less what was refunded. day: since 1970, the one that in_day is of.
CREATE TABLE account_key_spending (
    pubkey bytea   NOT NULL,
    number integer NOT NULL,
    total  bigint  NOT NULL CHECK (total >= 0),
    day    integer NOT NULL,
    in_day bigint  NOT NULL CHECK (in_day >= 0),
    PRIMARY KEY (pubkey, number)
) WITH (fillfactor = 50);  -- Changes with each call, on its own page.

-- The part of account_usage that named keys have brought about. The same account, hour and method may have more calls,
-- by other credentials.
CREATE TABLE account_key_usage (
    pubkey  bytea   NOT NULL,
    hour    integer NOT NULL,
    method  text    NOT NULL,
    key     integer NOT NULL,
    calls   bigint  NOT NULL,
    credits bigint  NOT NULL,
    PRIMARY KEY (pubkey, hour, method, key)
) WITH (fillfactor = 70);

-- The most credits that an account spends in an hour, as its wallet chose (hourly_limit.py). credits: NULL: as it is
-- learnt; 0: there is no limit. No row: as it is learnt.
CREATE TABLE account_hourly_limits (
    pubkey       bytea  PRIMARY KEY,
    credits      bigint CHECK (credits >= 0),
    lifted_until bigint NOT NULL
);

-- Since when an account counts its spending of an hour: one row of each account that has spent, written with the first
-- debit of each hour.
CREATE TABLE account_hours (
    pubkey   bytea   PRIMARY KEY,
    hour     integer NOT NULL,  -- Since 1970, by the ledger's time.
    consumed bigint  NOT NULL,  -- Consumed credits of the account when it began.
    usual    bigint             -- Credits of a usual hour, as far as it was learnt; NULL: it was not.
) WITH (fillfactor = 70);

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

-- The price list that an operator gave to an account. name: as the settings have it (pricing.lists); empty: the public
-- prices again. No row: the public prices.
CREATE TABLE account_price_lists (
    pubkey bytea PRIMARY KEY,
    name   text  NOT NULL
);

-- Credits that a named key has spent, as account_key_spending has them.
CREATE TYPE accounts_spent AS (
    pubkey bytea,
    number integer,
    total  bigint,
    day    integer,
    in_day bigint
);

-- Rows of a group: one argument of a row type costs less than an array for each column.

-- State of an account after its newest entry. seq_before: the sequence that the tables must have it at.
CREATE TYPE accounts_head AS (
    pubkey     bytea,
    seq_before bigint,
    seq        bigint,
    balance    bigint,
    consumed   bigint,
    last_batch integer,
    last_ms    bigint,
    hash       bytea
);

-- A line of the ledger: its columns, in their order there.
CREATE TYPE accounts_entry AS (
    pubkey       bytea,
    at_ms        bigint,
    seq          bigint,
    type         smallint,
    outcome      smallint,
    amount       bigint,
    balance      bigint,
    operation_id bytea,
    method       text,
    description  text,
    parcels      text,
    hash         bytea
);

-- Credits that are left in a batch.
CREATE TYPE accounts_left AS (
    pubkey    bytea,
    id        integer,
    remaining bigint
);

-- A fact that is to be appended.
CREATE TYPE accounts_fact AS (
    virtual_shard integer,
    kind          text,
    pubkey        bytea,
    body          jsonb
);
