-- Functions of accounts. Applied again at every start: each function stands here once, and this is its newest text.
-- They run with the rights of the product's role (grants.sql), except where SECURITY DEFINER says otherwise.
-- SQLSTATE LG001: the shards have another owner now. LG002: memory and tables disagree; the owner must load again.

-- Make the partition of the month that begins at first_ms, unless it is there. Needs the rights of the tables' owner.
-- It takes nothing but the month from its caller, so the right to call it gives no other right.
CREATE OR REPLACE FUNCTION accounts_partition(first_ms bigint) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    first timestamp := to_timestamp(first_ms / 1000) AT TIME ZONE 'UTC';
    next_ms bigint := (extract(epoch FROM first + interval '1 month') * 1000)::bigint;
    name text := 'ledger_' || to_char(first, 'YYYY_MM');
BEGIN
    IF first_ms % 1000 <> 0 OR first <> date_trunc('month', first) THEN
        RAISE EXCEPTION 'a partition begins with a month, and % does not', first_ms;
    END IF;
    -- Within these years a name says its month. Another era's month would take the name of a month to come.
    IF first < '2000-01-01' OR first >= '2200-01-01' THEN
        RAISE EXCEPTION 'a partition is of a month from 2000 to 2199, and % is not', first_ms;
    END IF;
    -- A month that was detached takes no entries any more: a clock that is set so far back writes nothing.
    IF EXISTS (SELECT FROM ledger_cuts AS c WHERE c.next_ms > accounts_partition.first_ms) THEN
        RETURN;
    END IF;
    IF to_regclass(name) IS NULL THEN
        PERFORM pg_advisory_xact_lock(1667851873, 0);
        EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF ledger FOR VALUES FROM (%s) TO (%s)',
                       name, first_ms, next_ms);
    END IF;
END $$;

-- Take these shards. taker: a name that no other process ever had. renew: only when all of them are the taker's still.
-- Gives the new epoch, or NULL when they are not.
-- The lock on an epoch orders takeovers against writes: a write that began earlier ends first, and one that begins
-- later sees the new epoch and is refused. So no older write can appear once this function has returned.
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

-- The shards of the owner with this index. Shards that nobody was chosen for are first spread over so many owners.
CREATE OR REPLACE FUNCTION accounts_assigned(my_index integer, owners integer) RETURNS integer[] LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1667851874, 0);
    INSERT INTO shard_owner (virtual_shard, epoch, owner, holder)
        SELECT shard, 0, '', shard * owners / 1024 FROM generate_series(0, 1023) AS shard ON CONFLICT DO NOTHING;
    UPDATE shard_owner SET holder = virtual_shard * owners / 1024 WHERE holder IS NULL;
    RETURN ARRAY (SELECT virtual_shard FROM shard_owner WHERE holder = my_index ORDER BY virtual_shard);
END $$;

-- Give the fresh shards to an owner, beside those that it has, and a new epoch for all of them. NULL: its own shards
-- have another owner now. 0: the fresh ones are not where their giver left them (giver_epoch NULL: whatever its epoch).
-- The locks are those of accounts_take_over(), for the same reason.
CREATE OR REPLACE FUNCTION accounts_adopt(
    taker text, my_index integer, my_epoch bigint, mine integer[], fresh integer[], giver integer, giver_epoch bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    earlier bigint;
    taken   bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(1667851874, 0);
    FOR earlier IN SELECT DISTINCT epoch FROM shard_owner WHERE virtual_shard = ANY (mine || fresh) ORDER BY epoch LOOP
        PERFORM pg_advisory_xact_lock(1667851875, (earlier % 2147483647)::integer);
    END LOOP;
    IF (SELECT count(*) FROM shard_owner AS o WHERE o.virtual_shard = ANY (mine) AND o.epoch = my_epoch)
            <> cardinality(mine) THEN
        RETURN NULL;
    END IF;
    IF (
        SELECT count(*) FROM shard_owner AS o
        WHERE o.virtual_shard = ANY (fresh) AND o.holder = giver AND o.epoch = COALESCE(giver_epoch, o.epoch)
    ) <> cardinality(fresh) THEN
        RETURN 0;
    END IF;
    taken := nextval('shard_epoch');
    UPDATE shard_owner AS o SET epoch = taken, owner = taker, holder = my_index
        WHERE o.virtual_shard = ANY (mine || fresh);
    RETURN taken;
END $$;

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

-- Keep the list of a replica's undelivered charges in place of its earlier list. A former owner changes nothing.
CREATE OR REPLACE FUNCTION accounts_list_edge(
    my_epoch bigint, my_home integer, my_owners integer, my_edge bytea, my_list bytea
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account_edges AS e SET epoch = my_epoch, owners = my_owners, undelivered = my_list
    WHERE e.home = my_home AND e.edge = my_edge AND e.epoch <= my_epoch;
    IF NOT FOUND THEN
        INSERT INTO account_edges (home, edge, owners, epoch, undelivered)
        VALUES (my_home, my_edge, my_owners, my_epoch, my_list) ON CONFLICT DO NOTHING;
    END IF;
END $$;

-- Write one group of an owner, whole or not at all. Gives the database's time in Unix milliseconds.
-- rare: NULL in most groups, else {"shards": [...], "profiles": [...], "batches": [...], "marks": [...]} and perhaps
-- "deposits", "returns", "events", "keys", "hourly_limits", "price_lists" and "hours": all shards of the group, accounts that are
-- new or whose profile changed, new batches, operations that are unique for ever (bytes in hex). With "facts_are_entries" what it
-- makes true stands among the entries (type 6).
-- Each account that is written must be of a shard that has this epoch. The shards of a rare part are checked before it
-- is written; each head checks its own shard as it is updated.
-- Each debit (type 2) is marked in account_debits. SQLSTATE 23505 there: its operation was debited before, in whatever
-- month and by whichever owner.
-- replicas, lists: the undelivered charges of each replica, as accounts_list_edge() takes them.
-- spent: what the named keys that paid have spent now.
CREATE OR REPLACE FUNCTION accounts_write_group(
    my_epoch bigint, rare jsonb, heads accounts_head[], entries accounts_entry[], lefts accounts_left[],
    my_home integer, my_owners integer, edges bytea[], lists bytea[], spent accounts_spent[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    touched bigint;
BEGIN
    -- The lock comes in a statement before all others, so that they see the outcome of a takeover that it waited for.
    -- It stands in a condition, which is never true, because an expression costs less than a statement.
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

        INSERT INTO account_debits (operation, at_ms)
        SELECT e.operation_id, e.at_ms FROM unnest(entries) AS e WHERE e.type = 2;

        UPDATE credit_batches AS c SET remaining = b.remaining
        FROM unnest(lefts) AS b
        WHERE c.pubkey = b.pubkey AND c.id = b.id;
        GET DIAGNOSTICS touched = ROW_COUNT;
        IF touched <> cardinality(lefts) THEN
            RAISE EXCEPTION 'a batch of credits is missing' USING ERRCODE = 'LG002';
        END IF;

        IF cardinality(spent) > 0 THEN
            INSERT INTO account_key_spending (pubkey, number, total, day, in_day) SELECT * FROM unnest(spent)
            ON CONFLICT (pubkey, number) DO UPDATE
                SET total = EXCLUDED.total, day = EXCLUDED.day, in_day = EXCLUDED.in_day;
        END IF;
    END IF;

    FOR number IN 1 .. cardinality(edges) LOOP  -- One of each replica.
        PERFORM accounts_list_edge(my_epoch, my_home, my_owners, edges[number], lists[number]);
    END LOOP;
    RETURN extract(epoch FROM clock_timestamp()) * 1000;
END $$;

-- accounts_write_group() for owners of release 0.1.0, which know no named keys.
CREATE OR REPLACE FUNCTION accounts_write(
    my_epoch bigint, rare jsonb, heads accounts_head[], entries accounts_entry[], lefts accounts_left[],
    my_home integer, my_owners integer, edges bytea[], lists bytea[]
) RETURNS bigint LANGUAGE sql AS $$
    SELECT accounts_write_group(my_epoch, rare, heads, entries, lefts, my_home, my_owners, edges, lists, NULL);
$$;

-- accounts_write_group() for a group of one entry that moved credits of one batch: the commonest group at low load.
CREATE OR REPLACE FUNCTION accounts_write_entry(
    my_epoch bigint, my_pubkey bytea, seq_before bigint, my_at_ms bigint, my_seq bigint, my_type smallint,
    my_outcome smallint, my_amount bigint, my_balance bigint, my_operation bytea, my_method text, my_description text,
    my_parcels text, my_hash bytea, consumed bigint, my_last_batch integer, batch integer, my_remaining bigint,
    my_home integer, my_owners integer, my_edge bytea, my_list bytea
) RETURNS bigint LANGUAGE plpgsql AS $$
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

    IF my_type = 2 THEN
        INSERT INTO account_debits (operation, at_ms) VALUES (my_operation, my_at_ms);
    END IF;

    UPDATE credit_batches AS c SET remaining = my_remaining WHERE c.pubkey = my_pubkey AND c.id = batch;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a batch of credits is missing' USING ERRCODE = 'LG002';
    END IF;

    IF my_edge IS NOT NULL THEN
        PERFORM accounts_list_edge(my_epoch, my_home, my_owners, my_edge, my_list);
    END IF;
    RETURN extract(epoch FROM clock_timestamp()) * 1000;
END $$;

-- Append facts to the chains of their shards, in this order. Facts of one shard must stand together: each shard's head
-- is read and written once.
CREATE OR REPLACE FUNCTION accounts_append_facts(facts accounts_fact[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    fact accounts_fact;
    head account_fact_heads;
BEGIN
    FOREACH fact IN ARRAY facts LOOP
        IF head.virtual_shard IS DISTINCT FROM fact.virtual_shard THEN
            UPDATE account_fact_heads AS h SET seq = head.seq, hash = head.hash
                WHERE h.virtual_shard = head.virtual_shard;
            INSERT INTO account_fact_heads (virtual_shard, seq, hash)
                VALUES (fact.virtual_shard, 0,
                        sha256(convert_to('ledger-gateway shard ' || fact.virtual_shard, 'UTF8')))
                ON CONFLICT DO NOTHING;
            SELECT h.* INTO STRICT head FROM account_fact_heads AS h WHERE h.virtual_shard = fact.virtual_shard
                FOR UPDATE;
        END IF;
        head.seq := head.seq + 1;
        head.hash := sha256(head.hash || convert_to(
            concat_ws(',', head.seq, fact.kind, encode(fact.pubkey, 'hex'), fact.body), 'UTF8'));
        INSERT INTO account_facts (virtual_shard, seq, kind, pubkey, body, hash)
            VALUES (head.virtual_shard, head.seq, fact.kind, fact.pubkey, fact.body::text, head.hash);
    END LOOP;
    UPDATE account_fact_heads AS h SET seq = head.seq, hash = head.hash WHERE h.virtual_shard = head.virtual_shard;
END $$;

-- Append the facts of a group's rare part, once it is written: as the tables have them now. Only for owners of release
-- 0.1.0: others write them as entries of the ledger. ledger_seq says which of those stand before.
CREATE OR REPLACE FUNCTION accounts_append_rare_facts(rare jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM accounts_append_facts(ARRAY (
        SELECT ROW (f.virtual_shard, f.kind, f.pubkey, f.body || jsonb_build_object('ledger_seq', f.seq))::accounts_fact
        FROM (
            SELECT 1 AS part, p.n, a.virtual_shard, 'account' AS kind, a.pubkey, a.seq, jsonb_build_object(
                'created_at', a.created_at, 'status', a.status, 'api_key_hash', encode(a.api_key_hash, 'hex'),
                'key_prefix', a.key_prefix, 'ref_code', a.ref_code, 'ref_bonus_bps', a.ref_bonus_bps,
                'requests_per_second', a.requests_per_second, 'concurrency', a.concurrency) AS body
            FROM jsonb_array_elements(rare -> 'profiles') WITH ORDINALITY AS p (row, n)
            JOIN accounts a ON a.pubkey = decode(p.row ->> 'pubkey', 'hex')
            UNION ALL
            SELECT 2, p.n, a.virtual_shard, 'batch', a.pubkey, a.seq, jsonb_build_object(
                'id', b.id, 'source', b.source, 'credits', b.credits, 'created_at', b.created_at,
                'expires_at', b.expires_at)
            FROM jsonb_array_elements(rare -> 'batches') WITH ORDINALITY AS p (row, n)
            JOIN accounts a ON a.pubkey = decode(p.row ->> 'pubkey', 'hex')
            JOIN credit_batches b ON b.pubkey = a.pubkey AND b.id = (p.row ->> 'id')::integer
            UNION ALL
            SELECT 3, p.n, a.virtual_shard, 'deposit', a.pubkey, a.seq, jsonb_build_object(
                'operation', encode(d.operation, 'hex'), 'base_units', d.base_units,
                'credits_per_usdc', d.credits_per_usdc, 'credits', d.credits, 'bonus', d.bonus, 'slot', d.slot,
                'at_ms', d.at_ms, 'assigned', d.assigned)
            FROM jsonb_array_elements(rare -> 'deposits') WITH ORDINALITY AS p (row, n)
            JOIN account_deposits d ON d.operation = decode(p.row ->> 'operation', 'hex')
            JOIN accounts a ON a.pubkey = d.pubkey
            UNION ALL
            SELECT 4, p.n, a.virtual_shard, 'return', a.pubkey, a.seq, jsonb_build_object(
                'operation', encode(d.operation, 'hex'), 'returned_ms', d.returned_ms, 'taken', d.taken,
                'uncollected', d.uncollected)
            FROM jsonb_array_elements(rare -> 'returns') WITH ORDINALITY AS p (row, n)
            JOIN account_deposits d ON d.operation = decode(p.row ->> 'operation', 'hex')
            JOIN accounts a ON a.pubkey = d.pubkey
        ) AS f
        ORDER BY f.virtual_shard, f.part, f.n
    ));
END $$;

-- Append the fact that each of these accounts was opened to the chain of its shard: an account that is removed with its
-- whole ledger is missed there.
CREATE OR REPLACE FUNCTION accounts_append_opened(fresh bytea[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM accounts_append_facts(ARRAY (
        SELECT ROW (a.virtual_shard, 'account', a.pubkey, jsonb_build_object(
            'created_at', a.created_at, 'status', a.status, 'api_key_hash', encode(a.api_key_hash, 'hex'),
            'key_prefix', a.key_prefix, 'ref_code', a.ref_code, 'ref_bonus_bps', a.ref_bonus_bps,
            'requests_per_second', a.requests_per_second, 'concurrency', a.concurrency))::accounts_fact
        FROM accounts AS a WHERE a.pubkey = ANY (fresh) ORDER BY a.virtual_shard, a.pubkey
    ));
END $$;

-- Write the rare part of a group.
CREATE OR REPLACE FUNCTION accounts_write_rare(rare jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    touched bigint;
    fresh   bytea[];
BEGIN
    fresh := ARRAY (
        SELECT decode(p.row ->> 'pubkey', 'hex') FROM jsonb_array_elements(rare -> 'profiles') AS p (row)
        WHERE NOT EXISTS (SELECT FROM accounts AS a WHERE a.pubkey = decode(p.row ->> 'pubkey', 'hex'))
    );
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

    IF rare ? 'keys' THEN
        INSERT INTO account_keys (pubkey, number, name, key_hash, key_prefix, limits, created_at, status, old_hash,
                                  old_until, parent, public, old_public, signed_by, block)
        SELECT decode(k.pubkey, 'hex'), k.number, k.name, decode(k.key_hash, 'hex'), k.key_prefix, k.limits,
               k.created_at, k.status, decode(k.old_hash, 'hex'), k.old_until, k.parent,
               decode(k.public, 'hex'), decode(k.old_public, 'hex'), decode(k.signed_by, 'hex'), decode(k.block, 'hex')
        FROM jsonb_to_recordset(rare -> 'keys') AS k (
            pubkey text, number integer, name text, key_hash text, key_prefix text, limits text, created_at bigint,
            status text, old_hash text, old_until bigint, parent integer, public text, old_public text, signed_by text,
            block text)
        ON CONFLICT (pubkey, number) DO UPDATE SET
            name = EXCLUDED.name, key_hash = EXCLUDED.key_hash, key_prefix = EXCLUDED.key_prefix,
            limits = EXCLUDED.limits, status = EXCLUDED.status, old_hash = EXCLUDED.old_hash,
            old_until = EXCLUDED.old_until, public = EXCLUDED.public, old_public = EXCLUDED.old_public;
    END IF;

    IF rare ? 'events' THEN
        INSERT INTO account_events (virtual_shard, pubkey, kind, subject, at_ms, body)
        SELECT a.virtual_shard, a.pubkey, e.kind, decode(e.subject, 'hex'), e.at_ms, e.body
        FROM jsonb_to_recordset(rare -> 'events') AS e (pubkey text, kind text, subject text, at_ms bigint, body jsonb)
        JOIN accounts a ON a.pubkey = decode(e.pubkey, 'hex')
        ON CONFLICT (pubkey, kind, subject) DO NOTHING;
    END IF;

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

    IF rare ? 'hourly_limits' THEN
        INSERT INTO account_hourly_limits (pubkey, credits, lifted_until)
        SELECT decode(h.pubkey, 'hex'), h.credits, h.lifted_until
        FROM jsonb_to_recordset(rare -> 'hourly_limits') AS h (pubkey text, credits bigint, lifted_until bigint)
        ON CONFLICT (pubkey) DO UPDATE SET credits = EXCLUDED.credits, lifted_until = EXCLUDED.lifted_until;
    END IF;

    IF rare ? 'price_lists' THEN
        INSERT INTO account_price_lists (pubkey, name)
        SELECT decode(p.pubkey, 'hex'), p.name FROM jsonb_to_recordset(rare -> 'price_lists') AS p (pubkey text, name text)
        ON CONFLICT (pubkey) DO UPDATE SET name = EXCLUDED.name;
    END IF;

    IF rare ? 'hours' THEN
        INSERT INTO account_hours (pubkey, hour, consumed, usual)
        SELECT decode(h.pubkey, 'hex'), h.hour, h.consumed, h.usual
        FROM jsonb_to_recordset(rare -> 'hours') AS h (pubkey text, hour integer, consumed bigint, usual bigint)
        ON CONFLICT (pubkey) DO UPDATE SET hour = EXCLUDED.hour, consumed = EXCLUDED.consumed, usual = EXCLUDED.usual;
    END IF;

    -- A deposit comes with its batch. Marks are no facts: each stands for an entry of the ledger, or voids a call.
    IF rare ? 'facts_are_entries' THEN
        PERFORM accounts_append_opened(fresh);
    ELSIF jsonb_array_length(rare -> 'profiles') + jsonb_array_length(rare -> 'batches') > 0 OR rare ? 'returns' THEN
        PERFORM accounts_append_rare_facts(rare);
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

-- The fact that a referral code is what its row says.
CREATE OR REPLACE FUNCTION accounts_append_referral_fact(my_code text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM accounts_append_facts(ARRAY (
        SELECT ROW (-1, 'referral', ''::bytea, jsonb_build_object(
            'code', r.code, 'bonus_bps', r.bonus_bps, 'created_at', r.created_at, 'expires_at', r.expires_at,
            'note', r.note))::accounts_fact
        FROM referral_codes r WHERE r.code = my_code
    ));
END $$;

-- Make a referral code; false: there is one of this name, which stays as it is.
CREATE OR REPLACE FUNCTION accounts_add_referral(
    my_code text, my_bonus_bps integer, my_created_at bigint, my_expires_at bigint, my_note text
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO referral_codes (code, bonus_bps, created_at, expires_at, note)
        VALUES (my_code, my_bonus_bps, my_created_at, my_expires_at, my_note) ON CONFLICT (code) DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM accounts_append_referral_fact(my_code);
    RETURN true;
END $$;

-- End a referral code, unless it has ended before; gives it as it is then, or no row.
CREATE OR REPLACE FUNCTION accounts_expire_referral(my_code text, now_at bigint)
RETURNS SETOF referral_codes LANGUAGE plpgsql AS $$
BEGIN
    UPDATE referral_codes AS r SET expires_at = now_at
        WHERE r.code = my_code AND (r.expires_at IS NULL OR r.expires_at > now_at);
    IF FOUND THEN
        PERFORM accounts_append_referral_fact(my_code);
    END IF;
    RETURN QUERY SELECT r.* FROM referral_codes AS r WHERE r.code = my_code;
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

-- The hour, counted from 1970, that an entry counts for: of a debit its own, of a refund (type 3) that of its debit.
CREATE OR REPLACE FUNCTION accounts_usage_hour(my_type smallint, my_at_ms bigint, my_operation bytea)
RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT (CASE my_type WHEN 3 THEN (SELECT d.at_ms FROM account_debits AS d WHERE d.operation = my_operation)
            ELSE my_at_ms END / 3600000)::integer;
$$;

-- Number of the named key that has made an entry, which stands last in its description; 0: none has.
CREATE OR REPLACE FUNCTION accounts_key_of(my_description text) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN strpos(my_description, '|') = 0 THEN 0  -- Nearly always; the pattern takes 1.2 µs for each entry.
                ELSE COALESCE(substring(my_description FROM '\|([0-9]{1,9})$')::integer, 0) END;
$$;

-- Add the next entries of an account to the rollup of its usage, at most so many. Gives how many there were, and the
-- sequence of the newest entry that is in the rollup now.
-- The entries of an account become visible in their order and without gaps (accounts_write_group() moves the account's
-- sequence), so the mark says exactly which ones are in the rollup. The lock on the mark makes a second caller wait, and
-- the statement behind it sees what the first one added.
CREATE OR REPLACE FUNCTION accounts_roll_usage(my_pubkey bytea, most integer, OUT entries bigint, OUT newest bigint)
LANGUAGE plpgsql AS $$
DECLARE
    mark account_usage_marks;
BEGIN
    INSERT INTO account_usage_marks (pubkey, at_ms, seq) VALUES (my_pubkey, 0, 0) ON CONFLICT DO NOTHING;
    SELECT m.* INTO STRICT mark FROM account_usage_marks AS m WHERE m.pubkey = my_pubkey FOR UPDATE;

    WITH next AS MATERIALIZED (
        SELECT l.at_ms, l.seq, l.type, l.method, l.amount, l.operation_id, accounts_key_of(l.description) AS key
        FROM ledger AS l
        WHERE l.pubkey = my_pubkey AND l.at_ms >= mark.at_ms AND (l.at_ms, l.seq) > (mark.at_ms, mark.seq)
        ORDER BY l.at_ms, l.seq LIMIT most
    ), added AS (
        INSERT INTO account_usage AS u (pubkey, hour, method, calls, credits)
        SELECT my_pubkey, accounts_usage_hour(n.type, n.at_ms, n.operation_id), n.method,
               sum(CASE n.type WHEN 2 THEN 1 ELSE -1 END), -sum(n.amount)
        FROM next AS n WHERE n.type IN (2, 3) GROUP BY 2, 3
        ON CONFLICT (pubkey, hour, method) DO UPDATE
            SET calls = u.calls + EXCLUDED.calls, credits = u.credits + EXCLUDED.credits
    ), added_by_key AS (
        INSERT INTO account_key_usage AS u (pubkey, hour, method, key, calls, credits)
        SELECT my_pubkey, accounts_usage_hour(n.type, n.at_ms, n.operation_id), n.method, n.key,
               sum(CASE n.type WHEN 2 THEN 1 ELSE -1 END), -sum(n.amount)
        FROM next AS n WHERE n.type IN (2, 3) AND n.key > 0 GROUP BY 2, 3, 4
        ON CONFLICT (pubkey, hour, method, key) DO UPDATE
            SET calls = u.calls + EXCLUDED.calls, credits = u.credits + EXCLUDED.credits
    )
    SELECT count(*), COALESCE(max(n.at_ms), mark.at_ms), COALESCE(max(n.seq), mark.seq)
        INTO entries, mark.at_ms, newest FROM next AS n;

    IF entries > 0 THEN
        UPDATE account_usage_marks AS m SET at_ms = mark.at_ms, seq = newest WHERE m.pubkey = my_pubkey;
    END IF;
END $$;

-- The usage of one account in the hours from first_hour to before end_hour, counted from 1970: the rollup, and the entries
-- that are younger than its mark. One statement, so both are of one moment.
-- bucket: so many hours make one row; 0: rows are by method alone. by_key: by the number of the named key, 0: of none; what
-- named keys did is taken out of the rollup of all. At most so many rows.
CREATE OR REPLACE FUNCTION accounts_usage_by(
    my_pubkey bytea, first_hour integer, end_hour integer, by_method boolean, bucket integer, by_key boolean, most integer
) RETURNS TABLE (method text, hour integer, key integer, calls bigint, credits bigint) LANGUAGE sql STABLE AS $$
    WITH mark AS MATERIALIZED (
        SELECT COALESCE(max(m.at_ms), 0) AS at_ms, COALESCE(max(m.seq), 0) AS seq
        FROM account_usage_marks AS m WHERE m.pubkey = my_pubkey
    ), found AS (
        SELECT u.method, u.hour, 0 AS key, u.calls, u.credits FROM account_usage AS u
        WHERE u.pubkey = my_pubkey AND u.hour >= first_hour AND u.hour < end_hour
        UNION ALL
        SELECT u.method, u.hour, part.key, part.sign * u.calls, part.sign * u.credits FROM account_key_usage AS u
        CROSS JOIN LATERAL (VALUES (0, -1), (u.key, 1)) AS part (key, sign)
        WHERE by_key AND u.pubkey = my_pubkey AND u.hour >= first_hour AND u.hour < end_hour
        UNION ALL
        SELECT t.method, t.hour, t.key, t.calls, t.credits FROM (
            SELECT l.method, accounts_usage_hour(l.type, l.at_ms, l.operation_id) AS hour,
                   CASE WHEN by_key THEN accounts_key_of(l.description) ELSE 0 END AS key,
                   (CASE l.type WHEN 2 THEN 1 ELSE -1 END)::bigint AS calls, -l.amount AS credits
            FROM ledger AS l
            WHERE l.pubkey = my_pubkey AND l.type IN (2, 3) AND l.at_ms >= (SELECT m.at_ms FROM mark AS m)
              AND (l.at_ms, l.seq) > ((SELECT m.at_ms FROM mark AS m), (SELECT m.seq FROM mark AS m))
        ) AS t WHERE t.hour >= first_hour AND t.hour < end_hour
    )
    SELECT CASE WHEN by_method THEN f.method END,
           CASE WHEN bucket > 0 THEN f.hour / bucket * bucket ELSE 0 END,
           f.key, sum(f.calls)::bigint, sum(f.credits)::bigint
    FROM found AS f GROUP BY 1, 2, 3 HAVING sum(f.calls) <> 0 OR sum(f.credits) <> 0 LIMIT most;
$$;

-- The same for release 0.1.0.
CREATE OR REPLACE FUNCTION accounts_usage(
    my_pubkey bytea, first_hour integer, end_hour integer, by_method boolean, bucket integer, most integer
) RETURNS TABLE (method text, hour integer, calls bigint, credits bigint) LANGUAGE sql STABLE AS $$
    SELECT u.method, u.hour, u.calls, u.credits
    FROM accounts_usage_by(my_pubkey, first_hour, end_hour, by_method, bucket, false, most) AS u;
$$;

-- The newest charges (type 2) of one method from from_ms to before to_ms, older than the entry (before_ms, before_seq), at
-- most so many, newest first. The rollup says in which hours there are any, so a rare method costs the entries of those
-- hours alone; entries that are younger than its mark are few, and read whole. A loop, because it ends with the page, and
-- keeps the order by itself. Ends of a range are times alone: an index scan that begins at a pair of time and number, which
-- may be far behind the range, would read all in between.
CREATE OR REPLACE FUNCTION accounts_charges_of(
    my_pubkey bytea, my_method text, from_ms bigint, to_ms bigint, before_ms bigint, before_seq bigint, most bigint
) RETURNS SETOF ledger LANGUAGE plpgsql STABLE AS $$
DECLARE
    mark     account_usage_marks;
    the_hour bigint;
    found    bigint;
BEGIN
    SELECT m.* INTO mark FROM account_usage_marks AS m WHERE m.pubkey = my_pubkey;
    mark.at_ms := COALESCE(mark.at_ms, 0);
    mark.seq := COALESCE(mark.seq, 0);
    RETURN QUERY SELECT l.* FROM ledger AS l
        WHERE l.pubkey = my_pubkey AND l.type = 2 AND l.method = my_method
          AND l.at_ms >= GREATEST(from_ms, mark.at_ms) AND l.at_ms <= LEAST(to_ms - 1, before_ms)
          AND (l.at_ms > mark.at_ms OR l.seq > mark.seq) AND (l.at_ms < before_ms OR l.seq < before_seq)
        ORDER BY l.at_ms DESC, l.seq DESC LIMIT most;
    GET DIAGNOSTICS found = ROW_COUNT;
    most := most - found;
    IF most <= 0 THEN
        RETURN;
    END IF;
    FOR the_hour IN
        SELECT u.hour FROM account_usage AS u
        WHERE u.pubkey = my_pubkey AND u.method = my_method AND u.hour >= (from_ms / 3600000)::integer
          AND u.hour <= (LEAST(to_ms, before_ms, mark.at_ms) / 3600000)::integer
        ORDER BY u.hour DESC
    LOOP
        RETURN QUERY SELECT l.* FROM ledger AS l
            WHERE l.pubkey = my_pubkey AND l.type = 2 AND l.method = my_method
              AND l.at_ms >= GREATEST(from_ms, the_hour * 3600000)
              AND l.at_ms <= LEAST(to_ms - 1, (the_hour + 1) * 3600000 - 1, before_ms, mark.at_ms)
              AND (l.at_ms < mark.at_ms OR l.seq <= mark.seq) AND (l.at_ms < before_ms OR l.seq < before_seq)
            ORDER BY l.at_ms DESC, l.seq DESC LIMIT most;
        GET DIAGNOSTICS found = ROW_COUNT;
        most := most - found;
        EXIT WHEN most <= 0;
    END LOOP;
END $$;

-- The bill of an account for the time from from_ms to before to_ms: its entries that move credits by type and method (and day, counted from
-- 1; else 0), with the hash over the hashes after each of them in their order. Two rows more: -1, the newest entry before
-- that time, and -2, the newest before its end, each with its balance and hash; 0 and nothing where there is none. Of a
-- time whose entries were detached a row more, -3, with the first millisecond that is kept as credits.
-- One statement, so that all is of one moment.
CREATE OR REPLACE FUNCTION accounts_bill(my_pubkey bytea, from_ms bigint, to_ms bigint, by_day boolean)
RETURNS TABLE (
    day integer, type smallint, method text, entries bigint, credits bigint, first bigint, last bigint, at_ms bigint,
    digest bytea
) LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN by_day THEN (l.at_ms - from_ms) / 86400000 + 1 ELSE 0 END::integer, l.type, l.method, count(*),
           sum(l.amount)::bigint, min(l.seq), max(l.seq), max(l.at_ms), sha256(string_agg(l.hash, ''::bytea ORDER BY l.seq))
    FROM ledger AS l WHERE l.pubkey = my_pubkey AND l.at_ms >= from_ms AND l.at_ms < to_ms AND l.type <> 6
    GROUP BY 1, 2, 3
    UNION ALL
    SELECT 0, ends.kind, '', 0, COALESCE(e.balance, 0), COALESCE(e.seq, 0), COALESCE(e.seq, 0), COALESCE(e.at_ms, 0),
           COALESCE(e.hash, ''::bytea)
    FROM (VALUES (-1::smallint, from_ms), (-2::smallint, to_ms)) AS ends (kind, until_ms)
    LEFT JOIN LATERAL (
        (SELECT l.balance, l.seq, l.at_ms, l.hash FROM ledger AS l
         WHERE l.pubkey = my_pubkey AND l.at_ms < ends.until_ms ORDER BY l.at_ms DESC, l.seq DESC LIMIT 1)
        UNION ALL
        SELECT c.balance, c.seq, c.at_ms, c.hash FROM ledger_carried AS c
        WHERE c.pubkey = my_pubkey AND c.at_ms < ends.until_ms
        ORDER BY seq DESC LIMIT 1
    ) AS e ON true
    UNION ALL
    SELECT 0, -3::smallint, '', 0, cut.next_ms, 0, 0, 0, ''::bytea
    FROM (SELECT max(c.next_ms) AS next_ms FROM ledger_cuts AS c) AS cut WHERE cut.next_ms > from_ms;
$$;

-- A month that was detached takes no entries, also in the moment before its table leaves the ledger.
CREATE OR REPLACE FUNCTION ledger_month_is_detached() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'this month was detached from the ledger: it takes no entries';
END $$;

-- Write one statement, and how far each of its accounts is in statements now. Gives nothing where it was written. Else
-- nothing was written, and it gives the accounts whose entries are not the next ones, with what they are at.
-- Whoever writes entries again that a statement has, or leaves some out, is told so; SQLSTATE 23505: the series has a
-- statement of this number.
CREATE OR REPLACE FUNCTION accounts_seal(
    my_series integer, my_number bigint, my_at_ms bigint, my_text text, my_key_id text, my_signature bytea,
    my_leaves bytea, seals accounts_seal[]
) RETURNS TABLE (account bytea, sealed_seq bigint, sealed_at_ms bigint) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO account_seals (pubkey, seq, at_ms) SELECT s.pubkey, 0, 0 FROM unnest(seals) AS s ON CONFLICT DO NOTHING;
    PERFORM FROM account_seals AS m WHERE m.pubkey = ANY (ARRAY (SELECT s.pubkey FROM unnest(seals) AS s))
        ORDER BY m.pubkey FOR UPDATE;
    RETURN QUERY SELECT m.pubkey, m.seq, m.at_ms FROM unnest(seals) AS s JOIN account_seals m ON m.pubkey = s.pubkey
        WHERE m.seq <> s.first - 1;
    IF FOUND THEN
        RETURN;
    END IF;
    INSERT INTO account_statements (series, number, at_ms, text, key_id, signature, leaves)
        VALUES (my_series, my_number, my_at_ms, my_text, my_key_id, my_signature, my_leaves);
    UPDATE account_seals AS m SET seq = s.last, at_ms = s.at_ms FROM unnest(seals) AS s WHERE m.pubkey = s.pubkey;
END $$;

-- Make this key the one that signs; the one before is retired. NULL for old_id: there was none.
-- False: another process has changed the keys meanwhile, and nothing was done.
CREATE OR REPLACE FUNCTION accounts_change_ledger_key(
    old_id text, new_id text, new_public bytea, new_sealed bytea, now_ms bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1667851876, 0);
    IF (SELECT k.id FROM ledger_keys k WHERE k.retired_ms IS NULL) IS DISTINCT FROM old_id THEN
        RETURN false;
    END IF;
    UPDATE ledger_keys SET retired_ms = now_ms WHERE retired_ms IS NULL;
    INSERT INTO ledger_keys (id, public, sealed, made_ms) VALUES (new_id, new_public, new_sealed, now_ms);
    RETURN true;
END $$;
