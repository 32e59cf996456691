-- Functions of sends, applied at every start.

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
