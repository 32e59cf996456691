-- Groups as rows of a type of their own each, and the commonest group, one entry, as plain values. An array for every
-- column cost the owner and the server more than what was in it. The accounts_write() of 26 arguments stays for an
-- owner of the version before, until it is fenced.
-- SQLSTATE LG001: the shards have another owner now. LG002: memory and tables disagree; the owner must load again.

-- Where an account stands after its newest entry. seq_before: where the tables must have it.
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

-- What a batch of credits has left.
CREATE TYPE accounts_left AS (
    pubkey    bytea,
    id        integer,
    remaining bigint
);

-- Why accounts could not be updated: raises always.
CREATE OR REPLACE FUNCTION accounts_refuse(my_epoch bigint, pubkeys bytea[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM accounts a LEFT JOIN shard_owner o ON o.virtual_shard = a.virtual_shard
        WHERE a.pubkey = ANY (pubkeys) AND o.epoch IS DISTINCT FROM my_epoch
    ) THEN
        RAISE EXCEPTION 'the shards have another owner' USING ERRCODE = 'LG001';
    END IF;
    RAISE EXCEPTION 'an account is not where its owner left it' USING ERRCODE = 'LG002';
END $$;

-- One group of an owner, whole or not at all. rare: NULL in most groups, else {"shards": [...], "profiles": [...],
-- "batches": [...], "marks": [...]}: all shards of the group, accounts that are new or whose profile changed, new
-- batches, operations that are unique for ever (bytes in hex).
-- Each account that is written must be of a shard that has this epoch: what is rare is asked about first, and every
-- head finds its own shard's owner as it is updated.
CREATE OR REPLACE FUNCTION accounts_write(
    my_epoch bigint, rare jsonb, heads accounts_head[], entries accounts_entry[], lefts accounts_left[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    touched bigint;
BEGIN
    -- First, and in a statement before all others, so that they see what a takeover did that this waited for. As a
    -- condition, because an expression costs less than a statement; it is never true.
    IF pg_advisory_xact_lock_shared(1667851875, (my_epoch % 2147483647)::integer) IS NULL THEN
        RAISE EXCEPTION 'no lock';
    END IF;

    IF rare IS NOT NULL THEN
        IF EXISTS (
            SELECT FROM jsonb_array_elements_text(rare -> 'shards') AS mine (shard)
            LEFT JOIN shard_owner o ON o.virtual_shard = mine.shard::integer
            WHERE o.epoch IS DISTINCT FROM my_epoch
        ) THEN
            RAISE EXCEPTION 'the shards have another owner' USING ERRCODE = 'LG001';
        END IF;
        PERFORM accounts_write_rare(rare);
    END IF;

    IF cardinality(heads) > 0 THEN
        UPDATE accounts AS a SET
            seq = h.seq, balance = h.balance, total_consumed = h.consumed, last_batch = h.last_batch,
            last_ms = h.last_ms, head_hash = h.hash
        FROM unnest(heads) AS h, shard_owner AS o
        WHERE a.pubkey = h.pubkey AND a.seq = h.seq_before
          AND o.virtual_shard = a.virtual_shard AND o.epoch = my_epoch;
        GET DIAGNOSTICS touched = ROW_COUNT;
        IF touched <> cardinality(heads) THEN
            PERFORM accounts_refuse(my_epoch, ARRAY (SELECT h.pubkey FROM unnest(heads) AS h));
        END IF;

        INSERT INTO ledger (pubkey, at_ms, seq, type, outcome, amount, balance, operation_id, method, description,
                            parcels, hash)
        SELECT * FROM unnest(entries);

        UPDATE credit_batches AS c SET remaining = b.remaining
        FROM unnest(lefts) AS b
        WHERE c.pubkey = b.pubkey AND c.id = b.id;
        GET DIAGNOSTICS touched = ROW_COUNT;
        IF touched <> cardinality(lefts) THEN
            RAISE EXCEPTION 'a batch of credits is missing' USING ERRCODE = 'LG002';
        END IF;
    END IF;
END $$;

-- accounts_write() for one entry that moved credits of one batch, and nothing else: what a caller who is alone writes.
CREATE OR REPLACE FUNCTION accounts_write_entry(
    my_epoch bigint, my_pubkey bytea, seq_before bigint, my_at_ms bigint, my_seq bigint, my_type smallint,
    my_outcome smallint, my_amount bigint, my_balance bigint, my_operation bytea, my_method text, my_description text,
    my_parcels text, my_hash bytea, consumed bigint, my_last_batch integer, batch integer, my_remaining bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF pg_advisory_xact_lock_shared(1667851875, (my_epoch % 2147483647)::integer) IS NULL THEN
        RAISE EXCEPTION 'no lock';
    END IF;

    UPDATE accounts AS a SET
        seq = my_seq, balance = my_balance, total_consumed = consumed, last_batch = my_last_batch,
        last_ms = my_at_ms, head_hash = my_hash
    WHERE a.pubkey = my_pubkey AND a.seq = seq_before
      AND (SELECT o.epoch FROM shard_owner AS o WHERE o.virtual_shard = a.virtual_shard) = my_epoch;
    IF NOT FOUND THEN
        PERFORM accounts_refuse(my_epoch, ARRAY [my_pubkey]);
    END IF;

    INSERT INTO ledger (pubkey, at_ms, seq, type, outcome, amount, balance, operation_id, method, description, parcels,
                        hash)
    VALUES (my_pubkey, my_at_ms, my_seq, my_type, my_outcome, my_amount, my_balance, my_operation, my_method,
            my_description, my_parcels, my_hash);

    UPDATE credit_batches AS c SET remaining = my_remaining WHERE c.pubkey = my_pubkey AND c.id = batch;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a batch of credits is missing' USING ERRCODE = 'LG002';
    END IF;
END $$;
