-- Accounts: who owns which shard, what each account has, and every credit that ever moved.
-- Amounts are whole credits; *_ms are Unix milliseconds; *_at are Unix seconds. Numbers of kinds are in ledger.py and
-- account.py. One owner writes an account, in groups, through accounts_write(): nothing else may change these tables.

CREATE TABLE IF NOT EXISTS shard_owner (
    virtual_shard integer PRIMARY KEY,
    epoch         bigint NOT NULL,
    owner         text   NOT NULL
);

-- Every takeover gets a number of its own: all shards taken together share it, and no two takeovers ever do.
CREATE SEQUENCE IF NOT EXISTS shard_epoch;

CREATE TABLE IF NOT EXISTS accounts (
    pubkey              bytea   PRIMARY KEY,
    virtual_shard       integer NOT NULL,
    created_at          bigint  NOT NULL,
    status              text    NOT NULL,
    api_key_hash        bytea   UNIQUE,
    key_prefix          text,
    ref_code            text,
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

CREATE TABLE IF NOT EXISTS credit_batches (
    pubkey     bytea   NOT NULL,
    id         integer NOT NULL,
    source     text    NOT NULL,
    credits    bigint  NOT NULL CHECK (credits > 0),
    remaining  bigint  NOT NULL CHECK (remaining BETWEEN 0 AND credits),
    created_at bigint  NOT NULL,
    expires_at bigint  NOT NULL,
    PRIMARY KEY (pubkey, id)
) WITH (fillfactor = 70);

-- Append-only. Partitioned by month of at_ms; accounts_partition() makes the partitions ahead of time.
CREATE TABLE IF NOT EXISTS ledger (
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

-- Operations that must be unique for ever, whatever month they were made in: voids, refunds, adjustments.
CREATE TABLE IF NOT EXISTS account_operations (
    pubkey    bytea    NOT NULL,
    kind      smallint NOT NULL,
    operation bytea    NOT NULL,
    at_ms     bigint   NOT NULL,
    amount    bigint   NOT NULL,
    PRIMARY KEY (pubkey, kind, operation)
);

CREATE OR REPLACE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is append-only: a correction is a new entry';
END $$;

CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE ON ledger
    FOR EACH ROW EXECUTE FUNCTION ledger_is_append_only();

-- The partition of the month that begins at first_ms, unless it is there.
CREATE OR REPLACE FUNCTION accounts_partition(name text, first_ms bigint, next_ms bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF to_regclass(name) IS NULL THEN
        PERFORM pg_advisory_xact_lock(1667851873, 0);
        EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF ledger FOR VALUES FROM (%s) TO (%s)',
                       name, first_ms, next_ms);
    END IF;
END $$;

-- Take these shards. taker: a name that no other process ever had. renew: only when all of them are the taker's still.
-- Gives the new epoch, or NULL when they are not.
-- The lock on an epoch orders takeovers against writes: a write that began earlier ends first, and one that begins
-- later sees the new epoch and is refused. So whoever returns from here knows that no older write can still appear.
CREATE OR REPLACE FUNCTION accounts_take_over(taker text, shards integer[], renew boolean)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    earlier bigint;
    taken   bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(1667851874, 0);  -- One takeover at a time.
    FOR earlier IN SELECT DISTINCT epoch FROM shard_owner WHERE virtual_shard = ANY (shards) ORDER BY epoch LOOP
        PERFORM pg_advisory_xact_lock(1667851875, (earlier % 2147483647)::integer);
    END LOOP;
    IF renew AND (
        SELECT count(*) FROM shard_owner WHERE virtual_shard = ANY (shards) AND shard_owner.owner = taker
    ) <> cardinality(shards) THEN
        RETURN NULL;
    END IF;
    taken := nextval('shard_epoch');
    INSERT INTO shard_owner (virtual_shard, epoch, owner) SELECT shard, taken, taker FROM unnest(shards) AS shard
        ON CONFLICT (virtual_shard) DO UPDATE SET epoch = EXCLUDED.epoch, owner = EXCLUDED.owner;
    RETURN taken;
END $$;

-- One group of an owner, whole or not at all. my_shards: the shards of the accounts in it. rare: NULL in most groups,
-- else {"profiles": [...], "batches": [...], "marks": [...]}: accounts that are new or whose profile changed, new
-- batches, operations that are unique for ever (bytes in hex). As JSON, because every further array costs each group.
-- SQLSTATE LG001: the shards have another owner now. LG002: memory and tables disagree; the owner must load again.
CREATE OR REPLACE FUNCTION accounts_write(
    my_epoch bigint, my_shards integer[], rare jsonb,
    -- accounts whose credits moved
    h_pubkey bytea[], h_seq_before bigint[], h_seq bigint[], h_balance bigint[], h_consumed bigint[],
    h_last_batch integer[], h_last_ms bigint[], h_hash bytea[],
    -- entries
    l_pubkey bytea[], l_at bigint[], l_seq bigint[], l_type smallint[], l_outcome smallint[], l_amount bigint[],
    l_balance bigint[], l_operation bytea[], l_method text[], l_description text[], l_parcels text[], l_hash bytea[],
    -- what batches have left
    b_pubkey bytea[], b_id integer[], b_remaining bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    touched bigint;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1667851875, (my_epoch % 2147483647)::integer);
    IF (SELECT count(*) FROM shard_owner WHERE virtual_shard = ANY (my_shards) AND epoch = my_epoch)
        <> cardinality(my_shards) THEN
        RAISE EXCEPTION 'the shards have another owner' USING ERRCODE = 'LG001';
    END IF;

    IF rare IS NOT NULL THEN
        PERFORM accounts_write_rare(rare);
    END IF;

    IF cardinality(h_pubkey) > 0 THEN
        UPDATE accounts AS a SET
            seq = h.seq, balance = h.balance, total_consumed = h.consumed, last_batch = h.last_batch,
            last_ms = h.last_ms, head_hash = h.hash
        FROM unnest(h_pubkey, h_seq_before, h_seq, h_balance, h_consumed, h_last_batch, h_last_ms, h_hash)
            AS h (pubkey, seq_before, seq, balance, consumed, last_batch, last_ms, hash)
        WHERE a.pubkey = h.pubkey AND a.seq = h.seq_before;
        GET DIAGNOSTICS touched = ROW_COUNT;
        IF touched <> cardinality(h_pubkey) THEN
            RAISE EXCEPTION 'an account is not where its owner left it' USING ERRCODE = 'LG002';
        END IF;

        INSERT INTO ledger (pubkey, at_ms, seq, type, outcome, amount, balance, operation_id, method, description,
                            parcels, hash)
        SELECT * FROM unnest(l_pubkey, l_at, l_seq, l_type, l_outcome, l_amount, l_balance, l_operation, l_method,
                             l_description, l_parcels, l_hash);

        UPDATE credit_batches AS c SET remaining = b.remaining
        FROM unnest(b_pubkey, b_id, b_remaining) AS b (pubkey, id, remaining)
        WHERE c.pubkey = b.pubkey AND c.id = b.id;
        GET DIAGNOSTICS touched = ROW_COUNT;
        IF touched <> cardinality(b_pubkey) THEN
            RAISE EXCEPTION 'a batch of credits is missing' USING ERRCODE = 'LG002';
        END IF;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION accounts_write_rare(rare jsonb) RETURNS void LANGUAGE sql AS $$
    INSERT INTO accounts (pubkey, virtual_shard, created_at, status, api_key_hash, key_prefix, ref_code,
                          requests_per_second, concurrency, head_hash)
    SELECT decode(pubkey, 'hex'), virtual_shard, created_at, status, decode(api_key_hash, 'hex'), key_prefix, ref_code,
           requests_per_second, concurrency, decode(genesis, 'hex')
    FROM jsonb_to_recordset(rare -> 'profiles') AS p (
        pubkey text, virtual_shard integer, created_at bigint, status text, api_key_hash text, key_prefix text,
        ref_code text, requests_per_second integer, concurrency integer, genesis text)
    ON CONFLICT (pubkey) DO UPDATE SET
        status = EXCLUDED.status, api_key_hash = EXCLUDED.api_key_hash, key_prefix = EXCLUDED.key_prefix,
        requests_per_second = EXCLUDED.requests_per_second, concurrency = EXCLUDED.concurrency;

    INSERT INTO credit_batches (pubkey, id, source, credits, remaining, created_at, expires_at)
    SELECT decode(pubkey, 'hex'), id, source, credits, credits, created_at, expires_at
    FROM jsonb_to_recordset(rare -> 'batches') AS b (
        pubkey text, id integer, source text, credits bigint, created_at bigint, expires_at bigint);

    INSERT INTO account_operations (pubkey, kind, operation, at_ms, amount)
    SELECT decode(pubkey, 'hex'), kind, decode(operation, 'hex'), at_ms, amount
    FROM jsonb_to_recordset(rare -> 'marks') AS m (
        pubkey text, kind smallint, operation text, at_ms bigint, amount bigint);
$$;
