-- Functions of webhooks. Applied again at every start. Rows of webhooks are locked in the order of their ids, so that no
-- two transactions wait for each other; the lock leaves foreign keys free (NO KEY UPDATE). Functions with my_slices and
-- my_epochs are the writes of a dispatcher: they leave slices alone that another dispatcher has claimed
-- (ownership_still() in ownership/functions.sql), and give those that are still the caller's.

-- The slice of an account's webhooks, as slices.py has it.
CREATE OR REPLACE FUNCTION webhooks_slice(owner bytea) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT get_byte(sha256(owner), 0) % 64;
$$;

-- What its customer has chosen of a webhook, as a fact tells it; of the URL, which may hold a token, its hash.
CREATE OR REPLACE FUNCTION webhooks_chosen(hook webhooks) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'id', hook.id, 'url_hash', encode(sha256(convert_to(hook.url, 'UTF8')), 'hex'),
        'filter_type', hook.filter_type, 'filter_value', hook.filter_value, 'subject', hook.subject,
        'kinds', hook.kinds, 'wallets', hook.wallets, 'mint', hook.mint, 'programs', hook.programs,
        'min_lamports', hook.min_lamports);
$$;

-- Have the registration of a webhook told to the ledger of its account.
CREATE OR REPLACE FUNCTION webhooks_registered(hook text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO webhook_facts (pubkey, webhook_id, body)
    SELECT w.pubkey, w.id, webhooks_chosen(w) FROM webhooks w WHERE w.id = hook;
$$;

-- Change a webhook as its customer asks: enable or disable it (NULL: neither), and narrow its filter. What is really
-- changed of the filter is told to the ledger of the account, in place of a change that was not told yet. Gives the
-- webhook, or nothing where there is none.
CREATE OR REPLACE FUNCTION webhooks_change(
    owner bytea, hook text, enable boolean, is_narrowed boolean, new_kinds text[], new_wallets text[], new_mint text,
    new_programs text[], new_min_lamports numeric, now_ms bigint
) RETURNS SETOF webhooks LANGUAGE plpgsql AS $$
DECLARE
    was webhooks;
    now_is webhooks;
BEGIN
    SELECT w.* INTO was FROM webhooks w WHERE w.pubkey = owner AND w.status <> 'deleted' AND w.id = hook
    FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE webhooks w SET
        kinds = CASE WHEN is_narrowed THEN new_kinds ELSE w.kinds END,
        wallets = CASE WHEN is_narrowed THEN new_wallets ELSE w.wallets END,
        mint = CASE WHEN is_narrowed THEN new_mint ELSE w.mint END,
        programs = CASE WHEN is_narrowed THEN new_programs ELSE w.programs END,
        min_lamports = CASE WHEN is_narrowed THEN new_min_lamports ELSE w.min_lamports END,
        status = CASE enable WHEN true THEN 'active' WHEN false THEN 'disabled' ELSE w.status END,
        disabled_reason = CASE enable WHEN true THEN NULL WHEN false THEN 'by its owner' ELSE w.disabled_reason END,
        failing_since_ms = CASE WHEN enable THEN NULL ELSE w.failing_since_ms END,
        rest_until_ms = CASE WHEN enable THEN 0 ELSE w.rest_until_ms END,
        look_ms = CASE WHEN enable AND EXISTS (
            SELECT FROM webhook_jobs j WHERE j.webhook_id = hook AND j.state <= 1) THEN now_ms ELSE w.look_ms END
    WHERE w.id = hook RETURNING w.* INTO now_is;
    IF webhooks_chosen(was) <> webhooks_chosen(now_is) THEN
        DELETE FROM webhook_facts WHERE webhook_id = hook AND is_change;
        INSERT INTO webhook_facts (pubkey, webhook_id, body, is_change)
        VALUES (owner, hook, webhooks_chosen(now_is), true);
    END IF;
    RETURN NEXT now_is;
END $$;

-- Keep events that some webhook waits for, each once for its cause, and make a job for each webhook that matches. A
-- webhook gets no more than jobs_max waiting jobs, and no more than paused_max while its account pays for nothing; events
-- beyond are counted on it. Gives the number of jobs.
DROP FUNCTION IF EXISTS webhooks_fan_out(webhooks_event[], bigint, integer);
CREATE OR REPLACE FUNCTION webhooks_fan_out(
    events webhooks_event[], now_ms bigint, jobs_max integer, paused_max integer
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    hooks  text[];
    beyond bigint[];
    made   bigint;
BEGIN
    WITH given AS MATERIALIZED (
        SELECT DISTINCT ON (e.cause) e.* FROM unnest(events) WITH ORDINALITY
            AS e (cause, filter_type, subject, kind, wallets, at_ms, body, mint, program, lamports, is_free, n)
        ORDER BY e.cause, e.n
    ), matched AS MATERIALIZED (
        SELECT e.*, ARRAY (
            SELECT w.id FROM webhooks w
            WHERE w.status = 'active' AND w.filter_type = e.filter_type AND w.subject = e.subject
              AND (e.kind IS NULL OR (
                  (w.kinds IS NULL OR e.kind = ANY (w.kinds)) AND (w.wallets IS NULL OR w.wallets && e.wallets)
                  AND (w.mint IS NULL OR e.mint = w.mint) AND (w.programs IS NULL OR e.program = ANY (w.programs))
                  AND (e.lamports IS NULL OR e.lamports >= w.min_lamports)))) AS hooks
        FROM given e
    ), fresh AS (
        INSERT INTO webhook_events (cause, filter_type, subject, kind, at_ms, body, is_free)
        SELECT m.cause, m.filter_type, m.subject, m.kind, m.at_ms, m.body, m.is_free FROM matched m
        WHERE cardinality(m.hooks) > 0 ORDER BY m.n
        ON CONFLICT (cause) DO NOTHING
        RETURNING id, cause
    ), lists AS MATERIALIZED (
        -- One row for each webhook: a join of webhooks with their jobs has no statistics, and may take minutes.
        SELECT hook, array_agg(f.id ORDER BY f.id) AS ids
        FROM fresh f JOIN matched m ON m.cause = f.cause, unnest(m.hooks) AS hook GROUP BY hook
    ), places AS MATERIALIZED (
        SELECT l.hook, l.ids, greatest(0, l.jobs_most - (SELECT count(*) FROM (
            SELECT FROM webhook_jobs j WHERE j.webhook_id = l.hook AND j.state <= 1 LIMIT jobs_max) AS waiting)) AS free
        FROM (
            SELECT each.*, CASE WHEN EXISTS (
                SELECT FROM webhooks w JOIN webhook_debts d ON d.pubkey = w.pubkey WHERE w.id = each.hook
            ) THEN least(jobs_max, paused_max) ELSE jobs_max END AS jobs_most FROM lists AS each
        ) AS l
    ), made_jobs AS (
        INSERT INTO webhook_jobs (webhook_id, event, due_ms, created_ms)
        SELECT p.hook, event, now_ms, now_ms FROM places p, unnest(p.ids[1:p.free::integer]) AS event
        ORDER BY event
        RETURNING id
    )
    SELECT array_agg(p.hook), array_agg(greatest(0, cardinality(p.ids) - p.free)), (SELECT count(*) FROM made_jobs)
    INTO hooks, beyond, made FROM places p;
    IF hooks IS NOT NULL THEN
        PERFORM FROM webhooks WHERE id = ANY (hooks) ORDER BY id FOR NO KEY UPDATE;
        UPDATE webhooks w SET
            look_ms = least(w.look_ms, now_ms),
            dropped_events = w.dropped_events + c.beyond,
            dropped_at_ms = CASE WHEN c.beyond > 0 THEN now_ms ELSE w.dropped_at_ms END
        FROM unnest(hooks, beyond) AS c (hook, beyond)
        WHERE w.id = c.hook AND (w.look_ms IS NULL OR w.look_ms > now_ms OR c.beyond > 0);
    END IF;
    RETURN made;
END $$;

-- Lease jobs of these slices that are due: webhooks that work before those that fail, of these the ones whose accounts hold the fewest
-- places first, and of these the ones that waited longest; one job of a webhook that fails, and failing_max of all that
-- fail. A webhook that works has each_max jobs under lease at most, and only at_once_max where its account holds
-- account_max, or as many as are free: nobody leases ahead what others need (places.py). holders, held: accounts that
-- hold many places before this claim. A webhook that was enabled again counts as failing until it has worked: enabling
-- is free, and could else take every place again and again for receivers that hang. Webhooks that another dispatcher is
-- looking at are skipped.
CREATE OR REPLACE FUNCTION webhooks_claim_of(
    mine integer[], now_ms bigint, lease_until_ms bigint, claimer text, jobs_max integer, each_max integer, failing_max integer,
    at_once_max integer, account_max integer, holders bytea[], held integer[]
) RETURNS SETOF webhooks_claimed LANGUAGE plpgsql AS $$
DECLARE
    hook  webhooks;
    open_room integer := jobs_max;
    failing_room integer := failing_max;
    accounts bytea[] := holders;
    places integer[] := held;
    account integer;
    fails boolean;
    room  integer;
    taken integer;
BEGIN
    FOR hook IN
        SELECT w.* FROM webhooks w LEFT JOIN unnest(holders, held) AS h (pubkey, places) ON h.pubkey = w.pubkey
        WHERE w.look_ms <= now_ms AND w.rest_until_ms <= now_ms AND w.status = 'active'
          AND webhooks_slice(w.pubkey) = ANY (mine)
          AND (failing_max > 0
               OR (w.failing_since_ms IS NULL AND coalesce(w.last_status, '') NOT IN ('retrying', 'failed')))
          AND (w.filter_type = 'lifecycle' OR NOT EXISTS (SELECT FROM webhook_debts d WHERE d.pubkey = w.pubkey))
        ORDER BY w.failing_since_ms IS NOT NULL OR coalesce(w.last_status, '') IN ('retrying', 'failed'),
            coalesce(h.places, 0), w.look_ms
        LIMIT 256 FOR NO KEY UPDATE OF w SKIP LOCKED
    LOOP
        fails := hook.failing_since_ms IS NOT NULL OR coalesce(hook.last_status, '') IN ('retrying', 'failed');
        EXIT WHEN open_room <= 0 OR (fails AND failing_room <= 0);
        account := array_position(accounts, hook.pubkey);
        IF account IS NULL THEN
            accounts := accounts || hook.pubkey;
            places := places || 0;
            account := cardinality(accounts);
        END IF;
        -- Events of an account's life have an order: no newer one before the fate of those under lease is kept.
        SELECT CASE WHEN fails THEN 1 - count(*)
                    WHEN hook.filter_type = 'lifecycle' AND count(*) > 0 THEN 0
                    WHEN places[account] < least(account_max, open_room) THEN each_max - count(*)
                    ELSE least(each_max, at_once_max) - count(*) END INTO room
        FROM webhook_jobs j WHERE j.webhook_id = hook.id AND j.state = 1 AND j.due_ms > now_ms;
        taken := 0;
        IF room > 0 THEN
            RETURN QUERY
            WITH picked AS (
                SELECT j.id FROM webhook_jobs j WHERE j.webhook_id = hook.id AND j.state <= 1 AND j.due_ms <= now_ms
                ORDER BY j.due_ms, j.id LIMIT least(room, open_room)
            ), leased AS (
                UPDATE webhook_jobs j SET state = 1, due_ms = lease_until_ms, lease = j.lease + 1, leased_by = claimer
                FROM picked WHERE j.id = picked.id RETURNING j.*
            )
            SELECT l.id, l.lease, l.attempts, hook.id, hook.pubkey, hook.url, hook.filter_type, hook.secret,
                   hook.previous_secrets, hook.previous_until_ms,
                   coalesce(hook.failing_since_ms, CASE WHEN fails THEN now_ms END), e.body, e.is_free
            FROM leased l JOIN webhook_events e ON e.id = l.event ORDER BY l.id;
            GET DIAGNOSTICS taken = ROW_COUNT;
        END IF;
        open_room := open_room - taken;
        places[account] := places[account] + taken;
        IF fails THEN
            failing_room := failing_room - taken;
        END IF;
        IF taken < room AND open_room <= 0 THEN
            UPDATE webhooks SET look_ms = now_ms WHERE id = hook.id;
        ELSE
            -- A full lane is looked at again when a result of it comes, or its first lease ends.
            UPDATE webhooks SET look_ms = (
                SELECT min(j.due_ms) FROM webhook_jobs j
                WHERE j.webhook_id = hook.id AND j.state <= 1 AND j.due_ms > now_ms)
            WHERE id = hook.id;
        END IF;
    END LOOP;
END $$;

-- webhooks_claim_of() of the owner of these slices.
CREATE OR REPLACE FUNCTION webhooks_claim_owned(
    my_slices integer[], my_epochs bigint[], now_ms bigint, lease_until_ms bigint, claimer text, jobs_max integer,
    each_max integer, failing_max integer, at_once_max integer, account_max integer, holders bytea[], held integer[]
) RETURNS SETOF webhooks_claimed LANGUAGE plpgsql AS $$
DECLARE
    mine integer[] := ownership_still('webhook-dispatchers', my_slices, my_epochs);
BEGIN
    RETURN QUERY SELECT * FROM webhooks_claim_of(mine, now_ms, lease_until_ms, claimer, jobs_max, each_max, failing_max,
        at_once_max, account_max, holders, held);
END $$;

-- For 0.1.0, whose one dispatcher has all slices. It may run until the first dispatcher of this release has replaced it.
CREATE OR REPLACE FUNCTION webhooks_claim(
    now_ms bigint, lease_until_ms bigint, claimer text, jobs_max integer, each_max integer, failing_max integer,
    at_once_max integer, account_max integer, holders bytea[], held integer[]
) RETURNS SETOF webhooks_claimed LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT * FROM webhooks_claim_of(ARRAY (SELECT generate_series(0, 63)), now_ms, lease_until_ms, claimer,
        jobs_max, each_max, failing_max, at_once_max, account_max, holders, held);
END $$;

-- Keep what came of attempts. The result of a lease that another one followed is not taken. A webhook that fails rests for
-- a quarter of the time since its failures began, but at least rest_min_ms and at most rest_max_ms.
CREATE OR REPLACE FUNCTION webhooks_finish(
    results webhooks_result[], now_ms bigint, rest_min_ms bigint, rest_max_ms bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    kept bigint;
BEGIN
    PERFORM FROM webhooks w
    WHERE w.id IN (SELECT j.webhook_id FROM unnest(results) AS r JOIN webhook_jobs j ON j.id = r.job)
    ORDER BY w.id FOR NO KEY UPDATE;

    WITH done AS (
        UPDATE webhook_jobs j SET state = r.state, due_ms = r.due_ms, attempts = r.attempts
        FROM unnest(results) AS r WHERE j.id = r.job AND j.state = 1 AND j.lease = r.lease
        RETURNING j.id, j.webhook_id, r.state AS state, r.at_ms, r.latency_ms, r.http_status, r.error, r.answer, r.disable
    ), logged AS (
        INSERT INTO webhook_attempts (job, at_ms, latency_ms, http_status, error, answer)
        SELECT id, at_ms, latency_ms, http_status, error, answer FROM done
    ), owing AS (
        INSERT INTO webhook_debts (pubkey, since_ms, look_ms)
        SELECT DISTINCT w.pubkey, now_ms, now_ms FROM done d JOIN webhooks w ON w.id = d.webhook_id WHERE d.state = 5
        ON CONFLICT (pubkey) DO NOTHING
    ), newest AS (
        SELECT DISTINCT ON (webhook_id) * FROM done ORDER BY webhook_id, at_ms + latency_ms DESC, id DESC
    ), streak AS (
        SELECT webhook_id, bool_or(state IN (2, 5)) AS worked, min(at_ms) AS began_ms, min(disable) AS disable
        FROM done GROUP BY webhook_id
    )
    UPDATE webhooks w SET
        last_job = n.id, last_http_status = n.http_status, last_at_ms = n.at_ms,
        last_status = CASE WHEN n.state IN (2, 5) THEN 'delivered' WHEN n.state = 0 THEN 'retrying' ELSE 'failed' END,
        failing_since_ms = CASE WHEN s.worked THEN NULL ELSE coalesce(w.failing_since_ms, s.began_ms) END,
        rest_until_ms = CASE WHEN s.worked THEN 0 ELSE now_ms + greatest(rest_min_ms, least(rest_max_ms,
            (now_ms - coalesce(w.failing_since_ms, s.began_ms)) / 4)) END,
        status = CASE WHEN s.disable IS NULL OR w.status = 'deleted' THEN w.status ELSE 'disabled' END,
        disabled_reason = coalesce(s.disable, w.disabled_reason)
    FROM newest n JOIN streak s ON s.webhook_id = n.webhook_id
    WHERE w.id = n.webhook_id;
    GET DIAGNOSTICS kept = ROW_COUNT;

    UPDATE webhooks w SET look_ms = (
        SELECT min(j.due_ms) FROM webhook_jobs j WHERE j.webhook_id = w.id AND j.state <= 1)
    WHERE w.id IN (SELECT j.webhook_id FROM unnest(results) AS r JOIN webhook_jobs j ON j.id = r.job);
    RETURN kept;
END $$;

-- Give leases back: the jobs wait again, due at once. A job that was never tried keeps its place before newer ones.
CREATE OR REPLACE FUNCTION webhooks_release(jobs bigint[], now_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    hooks text[];
BEGIN
    hooks := ARRAY (SELECT DISTINCT webhook_id FROM webhook_jobs WHERE id = ANY (jobs));
    PERFORM FROM webhooks WHERE id = ANY (hooks) ORDER BY id FOR NO KEY UPDATE;
    UPDATE webhook_jobs SET state = 0, due_ms = CASE WHEN attempts = 0 THEN least(created_ms, now_ms) ELSE now_ms END
    WHERE id = ANY (jobs) AND state = 1;
    UPDATE webhooks SET look_ms = least(look_ms, now_ms) WHERE id = ANY (hooks);
END $$;

-- webhooks_finish() of the owner of these slices.
CREATE OR REPLACE FUNCTION webhooks_finish_owned(
    my_slices integer[], my_epochs bigint[], results webhooks_result[], now_ms bigint, rest_min_ms bigint,
    rest_max_ms bigint
) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    mine integer[] := ownership_still('webhook-dispatchers', my_slices, my_epochs);
BEGIN
    PERFORM webhooks_finish(ARRAY (
        SELECT r FROM unnest(results) AS r
        JOIN webhook_jobs j ON j.id = r.job JOIN webhooks w ON w.id = j.webhook_id
        WHERE webhooks_slice(w.pubkey) = ANY (mine)), now_ms, rest_min_ms, rest_max_ms);
    RETURN mine;
END $$;

-- webhooks_release() of the owner of these slices. Their webhooks are left alone until rest_until_ms.
CREATE OR REPLACE FUNCTION webhooks_release_owned(
    my_slices integer[], my_epochs bigint[], jobs bigint[], now_ms bigint, rest_ms bigint
) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    mine integer[] := ownership_still('webhook-dispatchers', my_slices, my_epochs);
    own  bigint[];
BEGIN
    own := ARRAY (
        SELECT j.id FROM webhook_jobs j JOIN webhooks w ON w.id = j.webhook_id
        WHERE j.id = ANY (jobs) AND webhooks_slice(w.pubkey) = ANY (mine));
    PERFORM webhooks_release(own, now_ms);
    IF rest_ms > 0 THEN
        UPDATE webhooks SET rest_until_ms = greatest(rest_until_ms, rest_ms)
        WHERE id IN (SELECT webhook_id FROM webhook_jobs WHERE id = ANY (own));
    END IF;
    RETURN mine;
END $$;

-- Give back whatever is leased of these slices: their new owner begins anew. Gives the number of jobs.
CREATE OR REPLACE FUNCTION webhooks_recover(my_slices integer[], my_epochs bigint[], now_ms bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    mine   integer[] := ownership_still('webhook-dispatchers', my_slices, my_epochs);
    leased bigint[];
BEGIN
    leased := ARRAY (
        SELECT j.id FROM webhook_jobs j JOIN webhooks w ON w.id = j.webhook_id
        WHERE j.state = 1 AND webhooks_slice(w.pubkey) = ANY (mine));
    PERFORM webhooks_release(leased, now_ms);
    RETURN cardinality(leased);
END $$;

-- Pause those of these accounts that are in these slices.
CREATE OR REPLACE FUNCTION webhooks_pause(
    my_slices integer[], my_epochs bigint[], accounts bytea[], now_ms bigint, first_look_ms bigint
) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    mine integer[] := ownership_still('webhook-dispatchers', my_slices, my_epochs);
BEGIN
    INSERT INTO webhook_debts (pubkey, since_ms, look_ms)
    SELECT account, now_ms, first_look_ms FROM unnest(accounts) AS account WHERE webhooks_slice(account) = ANY (mine)
    ON CONFLICT (pubkey) DO NOTHING;
    RETURN mine;
END $$;

-- Give paused accounts of these slices that should be looked at now.
CREATE OR REPLACE FUNCTION webhooks_debts(
    my_slices integer[], my_epochs bigint[], now_ms bigint, next_look_ms bigint, accounts_max integer
) RETURNS SETOF bytea LANGUAGE plpgsql AS $$
DECLARE
    mine integer[] := ownership_still('webhook-dispatchers', my_slices, my_epochs);
BEGIN
    RETURN QUERY UPDATE webhook_debts d SET look_ms = next_look_ms WHERE d.pubkey IN (
        SELECT o.pubkey FROM webhook_debts o WHERE o.look_ms <= now_ms AND webhooks_slice(o.pubkey) = ANY (mine)
        ORDER BY o.look_ms LIMIT accounts_max FOR UPDATE SKIP LOCKED) RETURNING d.pubkey;
END $$;

-- Send ended jobs of a webhook again: these, or those of events of a time. Unpaid ones are delivered, and stay as they
-- are. Of the attempts of before, the newest attempts_max of each are kept: replays are free, and the log must not grow
-- with them. Gives the number of jobs.
DROP FUNCTION IF EXISTS webhooks_replay(text, bigint[], bigint, bigint, bigint, integer);
CREATE OR REPLACE FUNCTION webhooks_replay(
    hook text, jobs bigint[], from_ms bigint, to_ms bigint, now_ms bigint, jobs_max integer, attempts_max integer
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    again bigint[];
    sent  bigint;
BEGIN
    PERFORM FROM webhooks WHERE id = hook FOR NO KEY UPDATE;
    again := ARRAY (
        SELECT j.id FROM webhook_jobs j
        WHERE j.webhook_id = hook AND j.state IN (2, 3, 4)
          AND (CASE WHEN jobs IS NULL THEN j.created_ms BETWEEN from_ms AND to_ms ELSE j.id = ANY (jobs) END)
        ORDER BY j.id
        LIMIT greatest(0, jobs_max - (SELECT count(*) FROM (
            SELECT FROM webhook_jobs w WHERE w.webhook_id = hook AND w.state <= 1 LIMIT jobs_max) AS waiting))
    );
    UPDATE webhook_jobs SET state = 0, attempts = 0, due_ms = now_ms WHERE id = ANY (again);
    GET DIAGNOSTICS sent = ROW_COUNT;
    DELETE FROM webhook_attempts a USING (
        SELECT t.ctid AS place, row_number() OVER (PARTITION BY t.job ORDER BY t.at_ms DESC) AS n
        FROM webhook_attempts t WHERE t.job = ANY (again)) AS old
    WHERE a.ctid = old.place AND old.n > attempts_max;
    IF sent > 0 THEN
        UPDATE webhooks SET look_ms = least(look_ms, now_ms) WHERE id = hook;
    END IF;
    RETURN sent;
END $$;

-- Make a new secret the present one. Earlier ones stay valid until their times, previous_max of them at most. Gives 0,
-- or the time from which it can be done, or NULL where there is no such webhook.
CREATE OR REPLACE FUNCTION webhooks_rotate(
    owner bytea, hook text, sealed bytea, now_ms bigint, until_ms bigint, previous_max integer
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    secrets bytea[];
    untils  bigint[];
BEGIN
    PERFORM FROM webhooks WHERE id = hook AND pubkey = owner AND status <> 'deleted' FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT coalesce(array_agg(p.secret ORDER BY p.until DESC), '{}'), coalesce(array_agg(p.until ORDER BY p.until DESC), '{}')
    INTO secrets, untils
    FROM webhooks w, unnest(w.previous_secrets, w.previous_until_ms) AS p (secret, until)
    WHERE w.id = hook AND p.until > now_ms;
    IF cardinality(untils) >= previous_max THEN
        RETURN untils[previous_max];
    END IF;
    UPDATE webhooks w SET previous_secrets = w.secret || secrets, previous_until_ms = until_ms || untils, secret = sealed
    WHERE w.id = hook;
    INSERT INTO webhook_facts (pubkey, webhook_id, body)
    VALUES (owner, hook, jsonb_build_object('id', hook, 'rotated_ms', now_ms));
    RETURN 0;
END $$;

-- Remove a webhook and its jobs. What is under way, or delivered and not charged, is still owed: while there is any, the
-- webhook stays as 'deleted', which no page shows, without its URL and its secrets. Gives whether there was one.
CREATE OR REPLACE FUNCTION webhooks_delete(owner bytea, hook text, now_ms bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM webhooks WHERE id = hook AND pubkey = owner AND status <> 'deleted' FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE webhooks SET status = 'deleted', url = '', secret = '', previous_secrets = '{}', previous_until_ms = '{}',
        wallets = NULL, look_ms = NULL
    WHERE id = hook;
    INSERT INTO webhook_facts (pubkey, webhook_id, body)
    VALUES (owner, hook, jsonb_build_object('id', hook, 'deleted', true));
    DELETE FROM webhook_jobs WHERE webhook_id = hook AND state NOT IN (1, 5);
    PERFORM webhooks_bury(owner, now_ms);
    RETURN true;
END $$;

-- Remove deleted webhooks, of one account or of all, that owe nothing any more. Gives their number.
CREATE OR REPLACE FUNCTION webhooks_bury(owner bytea, now_ms bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    buried bigint;
BEGIN
    DELETE FROM webhooks w WHERE w.status = 'deleted' AND (owner IS NULL OR w.pubkey = owner) AND NOT EXISTS (
        SELECT FROM webhook_jobs j WHERE j.webhook_id = w.id AND (j.state = 5 OR (j.state = 1 AND j.due_ms > now_ms)));
    GET DIAGNOSTICS buried = ROW_COUNT;
    RETURN buried;
END $$;
