-- Functions of sends, applied at every start. Those with my_epoch are the writes of a racer: the first statement of each
-- refuses a racer whose slice has another owner (SQLSTATE LG001, ownership/functions.sql).

-- Refuse a racer that no longer owns this signature. The slice is the one of slices.py.
CREATE OR REPLACE FUNCTION sends_check(my_signature bytea, my_epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM ownership_check('racers', get_byte(sha256(my_signature), 0), my_epoch);
END $$;

-- sends_open() of the owner.
CREATE OR REPLACE FUNCTION sends_open_owned(
    my_epoch bigint, mine send_races, ticket send_tickets, open_max integer, hold_ms bigint
) RETURNS SETOF send_races LANGUAGE plpgsql AS $$
BEGIN
    PERFORM sends_check(mine.signature, my_epoch);
    RETURN QUERY SELECT * FROM sends_open(mine, ticket, open_max, hold_ms);
END $$;

-- The same with the number of the named key that pays for the ticket; 0: none does. Release 0.1.0 knows
-- none of them, and calls the one above.
CREATE OR REPLACE FUNCTION sends_open_keyed(
    my_epoch bigint, mine send_races, ticket send_tickets, open_max integer, hold_ms bigint, my_key integer
) RETURNS SETOF send_races LANGUAGE plpgsql AS $$
BEGIN
    PERFORM sends_check(mine.signature, my_epoch);
    RETURN QUERY SELECT * FROM sends_open(mine, ticket, open_max, hold_ms);
    IF my_key > 0 THEN
        INSERT INTO send_ticket_keys (operation, key)
        SELECT t.operation, my_key FROM send_tickets t WHERE t.operation = ticket.operation
        ON CONFLICT DO NOTHING;
    END IF;
END $$;

-- Begin a broadcast or a window of an open race. False: the stored race is another one by now, and nothing may leave.
CREATE OR REPLACE FUNCTION sends_broadcast(
    my_epoch bigint, my_signature bytea, window_before bigint, broadcasts_before integer, my_window_at_ms bigint,
    my_window_slot bigint, my_last_slot bigint, my_broadcasts integer, my_retries integer, my_look_at_ms bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM sends_check(my_signature, my_epoch);
    UPDATE send_races r SET window_at_ms = my_window_at_ms, window_slot = my_window_slot, last_slot = my_last_slot,
        broadcasts = my_broadcasts, retries = my_retries, look_at_ms = my_look_at_ms
    WHERE r.signature = my_signature AND r.state = 0 AND r.window_at_ms = window_before
      AND r.broadcasts = broadcasts_before;
    RETURN FOUND;
END $$;

-- Store what legs did. is_sent: one of them sent it; an ended race stays as it is.
CREATE OR REPLACE FUNCTION sends_report(
    my_epoch bigint, my_signature bytea, is_sent boolean, my_broadcasts integer[], my_legs text[],
    my_submitted bigint[], my_acknowledged bigint[], my_errors text[], my_refused boolean[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM sends_check(my_signature, my_epoch);
    UPDATE send_races r SET sent = r.sent OR (is_sent AND r.state = 0) WHERE r.signature = my_signature;
    IF FOUND THEN
        INSERT INTO send_reports (signature, broadcast, leg, submitted_ms, acknowledged_ms, error, refused)
        SELECT my_signature, row.*
        FROM unnest(my_broadcasts, my_legs, my_submitted, my_acknowledged, my_errors, my_refused) AS row
        ON CONFLICT (signature, broadcast, leg) DO NOTHING;
    END IF;
END $$;

-- Store the end of a race. False: it had ended before.
CREATE OR REPLACE FUNCTION sends_end(
    my_epoch bigint, my_signature bytea, my_state smallint, my_slot bigint, my_error text, my_ended_at_ms bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM sends_check(my_signature, my_epoch);
    UPDATE send_races r SET state = my_state, slot = my_slot, error = my_error, ended_at_ms = my_ended_at_ms
    WHERE r.signature = my_signature AND r.state < 10;
    RETURN FOUND;
END $$;

-- sends_end_ticket() of the owner.
CREATE OR REPLACE FUNCTION sends_end_ticket_owned(
    my_epoch bigint, my_signature bytea, my_operation bytea, my_charge bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM sends_check(my_signature, my_epoch);
    PERFORM sends_end_ticket(my_operation, my_charge);
END $$;

-- Make every race of these slices due that is not settled.
CREATE OR REPLACE FUNCTION sends_hasten(my_slices integer[], my_epochs bigint[], now_ms bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    mine integer[];
BEGIN
    mine := ownership_still('racers', my_slices, my_epochs);
    UPDATE send_races r SET look_at_ms = now_ms
    WHERE NOT r.settled AND r.look_at_ms > now_ms AND get_byte(sha256(r.signature), 0) = ANY (mine);
END $$;

-- Take due races of these slices, the longest waiting first: nobody gets them again until their next look. often_ms: an
-- open race is looked at often for so long after its window, and then after each quarter of its age.
CREATE OR REPLACE FUNCTION sends_due(
    my_slices integer[], my_epochs bigint[], now_ms bigint, next_look_ms bigint, most integer, often_ms bigint
) RETURNS SETOF send_races LANGUAGE plpgsql AS $$
DECLARE
    mine integer[];
BEGIN
    mine := ownership_still('racers', my_slices, my_epochs);
    RETURN QUERY UPDATE send_races r SET look_at_ms = next_look_ms
        + CASE WHEN r.state = 0 THEN greatest(0, now_ms - r.window_at_ms - often_ms) / 4 ELSE 0 END
    WHERE r.signature IN (
        SELECT d.signature FROM send_races d
        WHERE NOT d.settled AND d.look_at_ms <= now_ms AND get_byte(sha256(d.signature), 0) = ANY (mine)
        ORDER BY d.look_at_ms LIMIT most FOR UPDATE SKIP LOCKED)
    RETURNING r.*;
END $$;

-- Remove settled races of these slices that ended before. Gives their number.
CREATE OR REPLACE FUNCTION sends_forget(my_slices integer[], my_epochs bigint[], before_ms bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    mine    integer[];
    removed bigint;
BEGIN
    mine := ownership_still('racers', my_slices, my_epochs);
    DELETE FROM send_races r
    WHERE r.settled AND r.ended_at_ms < before_ms AND get_byte(sha256(r.signature), 0) = ANY (mine);
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- Begin a race, or join the one of this signature, with a ticket. Asked again with the same operation, nothing changes.
-- Gives the race as it is stored now; nothing where the account has open_max tickets that have not ended. The ticket
-- that pays for the landing is the first one; where its hold has expired, after hold_ms, the next one.
CREATE OR REPLACE FUNCTION sends_open(mine send_races, ticket send_tickets, open_max integer, hold_ms bigint)
RETURNS SETOF send_races LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM send_tickets t WHERE t.operation = ticket.operation) AND open_max <= (
        SELECT count(*) FROM (
            SELECT FROM send_tickets t WHERE t.pubkey = ticket.pubkey AND t.charged IS NULL LIMIT open_max) counted)
    THEN
        RETURN;
    END IF;
    INSERT INTO send_races SELECT (mine).* ON CONFLICT (signature) DO NOTHING;
    -- The lock: two calls of one race must not both be its first, nor miss its end.
    PERFORM FROM send_races r WHERE r.signature = mine.signature FOR UPDATE;
    IF NOT EXISTS (SELECT FROM send_tickets t WHERE t.operation = ticket.operation) THEN
        UPDATE send_tickets t SET first = false
        WHERE t.signature = mine.signature AND t.first AND t.opened_at_ms <= ticket.opened_at_ms - hold_ms
          AND EXISTS (SELECT FROM send_races r WHERE r.signature = mine.signature AND r.state = 0);
    END IF;
    INSERT INTO send_tickets
    SELECT ticket.operation, ticket.pubkey, ticket.epoch, ticket.method, ticket.landing, ticket.base, mine.signature,
           ticket.opened_at_ms,
           NOT EXISTS (SELECT FROM send_tickets t WHERE t.signature = mine.signature AND t.first), NULL
    ON CONFLICT (operation) DO NOTHING;
    IF FOUND THEN
        UPDATE send_races r SET settled = false WHERE r.signature = mine.signature AND r.settled;
    END IF;
    RETURN QUERY SELECT r.* FROM send_races r WHERE r.signature = mine.signature;
END $$;

-- The hold of a ticket has ended with this charge, unless it had before.
CREATE OR REPLACE FUNCTION sends_end_ticket(my_operation bytea, my_charge bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    mine bytea;
BEGIN
    SELECT t.signature INTO mine FROM send_tickets t WHERE t.operation = my_operation;
    PERFORM FROM send_races r WHERE r.signature = mine FOR UPDATE;
    UPDATE send_tickets t SET charged = my_charge WHERE t.operation = my_operation AND t.charged IS NULL;
    UPDATE send_races r SET settled = true
    WHERE r.signature = mine AND r.state >= 10
      AND NOT EXISTS (SELECT FROM send_tickets t WHERE t.signature = mine AND t.charged IS NULL);
END $$;

-- Replace a process's lease of an engine by one that is valid from now on. Gives its share: what is wanted, or what the
-- valid leases of other processes leave of the rate.
CREATE OR REPLACE FUNCTION sends_lease(
    my_engine text, my_racer text, my_process text, wanted_milli bigint, rate_milli bigint, valid_ms bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    granted bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(1869375092, hashtext(my_engine));
    DELETE FROM send_leases l WHERE l.engine = my_engine AND l.until <= clock_timestamp();
    SELECT greatest(0, least(wanted_milli, rate_milli - coalesce(sum(l.milli), 0))) INTO granted
    FROM send_leases l WHERE l.engine = my_engine AND l.process <> my_process;
    INSERT INTO send_leases (engine, process, racer, milli, until)
    VALUES (my_engine, my_process, my_racer, granted, clock_timestamp() + valid_ms * interval '1 millisecond')
    ON CONFLICT (engine, process) DO UPDATE SET milli = EXCLUDED.milli, until = EXCLUDED.until;
    RETURN granted;
END $$;
