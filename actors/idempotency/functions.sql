-- Functions of idempotency, applied at every start. Each locks a key first, and the count of its scope after it.

CREATE OR REPLACE FUNCTION idempotency_uncount(my_scope bytea, removed bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE idempotency_counts c SET kept = c.kept - removed WHERE c.scope = my_scope;
    DELETE FROM idempotency_counts c WHERE c.scope = my_scope AND c.kept = 0;
END $$;

-- Store a key that is new or expired. Gives the record of this key as it is stored then; none: the scope is full.
CREATE OR REPLACE FUNCTION idempotency_claim(mine idempotency_keys, now_ms bigint, keys_max integer)
RETURNS SETOF idempotency_keys LANGUAGE plpgsql AS $$
DECLARE
    counted integer;
BEGIN
    LOOP
        DELETE FROM idempotency_keys k
        WHERE k.scope = mine.scope AND k.key = mine.key AND k.expires_at_ms <= now_ms;
        IF FOUND THEN
            PERFORM idempotency_uncount(mine.scope, 1);
        END IF;
        INSERT INTO idempotency_keys SELECT (mine).* ON CONFLICT (scope, key) DO NOTHING;
        IF FOUND THEN
            INSERT INTO idempotency_counts AS c VALUES (mine.scope, 1)
            ON CONFLICT (scope) DO UPDATE SET kept = c.kept + 1 RETURNING kept INTO counted;
            IF counted > keys_max THEN
                DELETE FROM idempotency_keys k WHERE k.scope = mine.scope AND k.key = mine.key;
                PERFORM idempotency_uncount(mine.scope, 1);
                RETURN;
            END IF;
        END IF;
        RETURN QUERY SELECT k.* FROM idempotency_keys k WHERE k.scope = mine.scope AND k.key = mine.key;
        EXIT WHEN FOUND;  -- Otherwise it was removed between the two statements.
    END LOOP;
END $$;

-- Remove a key, unless another attempt has it.
CREATE OR REPLACE FUNCTION idempotency_forget(my_scope bytea, my_key text, my_attempt bytea)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM idempotency_keys k WHERE k.scope = my_scope AND k.key = my_key AND k.attempt = my_attempt;
    IF FOUND THEN
        PERFORM idempotency_uncount(my_scope, 1);
    END IF;
END $$;

-- Remove expired keys, so many at most, and give their number. Callers at the same time take different keys.
CREATE OR REPLACE FUNCTION idempotency_forget_expired(now_ms bigint, most integer)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    one record;
    total bigint := 0;
BEGIN
    FOR one IN
        WITH expired AS (
            SELECT k.scope, k.key FROM idempotency_keys k WHERE k.expires_at_ms <= now_ms
            ORDER BY k.expires_at_ms LIMIT most FOR UPDATE SKIP LOCKED
        ), removed AS (
            DELETE FROM idempotency_keys k USING expired e WHERE k.scope = e.scope AND k.key = e.key RETURNING k.scope
        )
        SELECT r.scope, count(*) AS removed FROM removed r GROUP BY r.scope ORDER BY r.scope
    LOOP
        PERFORM idempotency_uncount(one.scope, one.removed);
        total := total + one.removed;
    END LOOP;
    RETURN total;
END $$;
