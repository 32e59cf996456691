-- Deposits, referral codes, and events that must be told at least once.
-- Amounts are whole credits and base units of USDC; *_ms are Unix milliseconds; *_at are Unix seconds.

-- What a referral code was worth when the account captured it, in 1/10,000 of each deposit; NULL without a code.
ALTER TABLE accounts ADD COLUMN IF NOT EXISTS ref_bonus_bps integer;

CREATE TABLE IF NOT EXISTS referral_codes (
    code       text    PRIMARY KEY,
    bonus_bps  integer NOT NULL CHECK (bonus_bps BETWEEN 1 AND 10000),
    created_at bigint  NOT NULL,
    expires_at bigint,           -- NULL: never.
    note       text    NOT NULL
);

-- Token transfers that became credits, each once among all accounts. operation: 64 bytes of signature, four of the
-- transfer's number in its transaction.
CREATE TABLE IF NOT EXISTS account_deposits (
    operation        bytea   PRIMARY KEY,
    pubkey           bytea   NOT NULL,
    base_units       bigint  NOT NULL CHECK (base_units > 0),
    credits_per_usdc bigint  NOT NULL,
    credits          bigint  NOT NULL CHECK (credits > 0),
    bonus            bigint  NOT NULL CHECK (bonus >= 0),
    slot             bigint  NOT NULL,
    at_ms            bigint  NOT NULL,
    assigned         boolean NOT NULL,
    -- A payment that never became final: what was taken back, and what the account did not have any more.
    returned_ms      bigint,
    taken            bigint CHECK (taken >= 0),
    uncollected      bigint CHECK (uncollected >= 0)
);

-- Events for webhooks, written with what they tell; told to the sink afterwards, at least once.
CREATE TABLE IF NOT EXISTS account_events (
    id            bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    virtual_shard integer NOT NULL,
    pubkey        bytea   NOT NULL,
    kind          text    NOT NULL,
    subject       bytea   NOT NULL,  -- With kind and account: what happens once, such as this batch coming near its end.
    at_ms         bigint  NOT NULL,
    body          jsonb   NOT NULL,
    told          boolean NOT NULL DEFAULT false,
    UNIQUE (pubkey, kind, subject)
);
CREATE INDEX IF NOT EXISTS account_events_untold ON account_events (id) WHERE NOT told;

-- expires_at of a batch never changes, so this index costs the updates of every call nothing.
CREATE INDEX IF NOT EXISTS credit_batches_expires_at ON credit_batches (expires_at);

CREATE OR REPLACE FUNCTION accounts_write_rare(rare jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    touched bigint;
BEGIN
    INSERT INTO accounts (pubkey, virtual_shard, created_at, status, api_key_hash, key_prefix, ref_code, ref_bonus_bps,
                          requests_per_second, concurrency, head_hash)
    SELECT decode(p.pubkey, 'hex'), p.virtual_shard, p.created_at, p.status, decode(p.api_key_hash, 'hex'),
           p.key_prefix, p.ref_code, p.ref_bonus_bps, p.requests_per_second, p.concurrency, decode(p.genesis, 'hex')
    FROM jsonb_to_recordset(rare -> 'profiles') AS p (
        pubkey text, virtual_shard integer, created_at bigint, status text, api_key_hash text, key_prefix text,
        ref_code text, ref_bonus_bps integer, requests_per_second integer, concurrency integer, genesis text)
    ON CONFLICT (pubkey) DO UPDATE SET
        status = EXCLUDED.status, api_key_hash = EXCLUDED.api_key_hash, key_prefix = EXCLUDED.key_prefix,
        requests_per_second = EXCLUDED.requests_per_second, concurrency = EXCLUDED.concurrency;

    INSERT INTO credit_batches (pubkey, id, source, credits, remaining, created_at, expires_at)
    SELECT decode(b.pubkey, 'hex'), b.id, b.source, b.credits, b.credits, b.created_at, b.expires_at
    FROM jsonb_to_recordset(rare -> 'batches') AS b (
        pubkey text, id integer, source text, credits bigint, created_at bigint, expires_at bigint);

    INSERT INTO account_operations (pubkey, kind, operation, at_ms, amount)
    SELECT decode(m.pubkey, 'hex'), m.kind, decode(m.operation, 'hex'), m.at_ms, m.amount
    FROM jsonb_to_recordset(rare -> 'marks') AS m (
        pubkey text, kind smallint, operation text, at_ms bigint, amount bigint);

    IF rare ? 'deposits' THEN
        PERFORM accounts_write_deposits(rare -> 'deposits');
    END IF;

    IF rare ? 'returns' THEN
        UPDATE account_deposits AS d
        SET returned_ms = r.at_ms, taken = r.taken, uncollected = r.uncollected
        FROM jsonb_to_recordset(rare -> 'returns') AS r (
            operation text, taken bigint, uncollected bigint, at_ms bigint)
        WHERE d.operation = decode(r.operation, 'hex') AND d.returned_ms IS NULL;
        GET DIAGNOSTICS touched = ROW_COUNT;
        IF touched <> jsonb_array_length(rare -> 'returns') THEN
            RAISE EXCEPTION 'a deposit to take back is missing or was taken back before' USING ERRCODE = 'LG002';
        END IF;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION accounts_write_deposits(deposits jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO account_deposits (operation, pubkey, base_units, credits_per_usdc, credits, bonus, slot, at_ms, assigned)
    SELECT decode(d.operation, 'hex'), decode(d.pubkey, 'hex'), d.base_units, d.credits_per_usdc, d.credits, d.bonus,
           d.slot, d.at_ms, d.assigned
    FROM jsonb_to_recordset(deposits) AS d (
        operation text, pubkey text, base_units bigint, credits_per_usdc bigint, credits bigint, bonus bigint,
        slot bigint, at_ms bigint, assigned boolean);

    -- The last one of each account in this group, in the order in which they were decided.
    UPDATE accounts AS a SET last_deposit = d.row
    FROM (SELECT DISTINCT ON (e.row ->> 'pubkey') e.row FROM jsonb_array_elements(deposits) WITH ORDINALITY AS e (row, n)
          ORDER BY e.row ->> 'pubkey', e.n DESC) AS d
    WHERE a.pubkey = decode(d.row ->> 'pubkey', 'hex');

    INSERT INTO account_events (virtual_shard, pubkey, kind, subject, at_ms, body)
    SELECT a.virtual_shard, a.pubkey, 'deposit.credited', decode(d.row ->> 'operation', 'hex'),
           (d.row ->> 'at_ms')::bigint, d.row
    FROM jsonb_array_elements(deposits) AS d (row)
    JOIN accounts a ON a.pubkey = decode(d.row ->> 'pubkey', 'hex');
END $$;

-- An event for every batch with something left that expires between now and until, once each.
CREATE OR REPLACE FUNCTION accounts_announce_expiring(shards integer[], now_ms bigint, until_at bigint)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO account_events (virtual_shard, pubkey, kind, subject, at_ms, body)
    SELECT a.virtual_shard, b.pubkey, 'credits.expiring', int4send(b.id), now_ms,
           jsonb_build_object('batch', b.id, 'source', b.source, 'remaining', b.remaining, 'expires_at', b.expires_at)
    FROM credit_batches b JOIN accounts a ON a.pubkey = b.pubkey
    WHERE b.expires_at > now_ms / 1000 AND b.expires_at <= until_at AND b.remaining > 0
      AND a.virtual_shard = ANY (shards)
    ON CONFLICT (pubkey, kind, subject) DO NOTHING;
$$;
