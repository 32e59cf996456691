-- Functions of ownership. Applied again at every start: each function stands here once, and this is its newest text.
-- SQLSTATE LG001: the slices have another owner now.

-- Take these slices, whoever holds them. Gives the new epoch, one for all of them.
-- The lock on an epoch orders claims against writes: a write that began earlier ends first, and one that begins later
-- sees the new epoch and is refused. So no older write can appear once this function has returned.
CREATE OR REPLACE FUNCTION ownership_claim(my_kind text, my_slices integer[], taker text)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    earlier bigint;
    taken   bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(1869375090, 0);  -- One claim at a time.
    FOR earlier IN
        SELECT DISTINCT o.epoch FROM ownership o WHERE o.kind = my_kind AND o.slice = ANY (my_slices) ORDER BY o.epoch
    LOOP
        PERFORM pg_advisory_xact_lock(1869375091, (earlier % 2147483647)::integer);
    END LOOP;
    taken := nextval('ownership_epoch');
    INSERT INTO ownership (kind, slice, holder, epoch) SELECT my_kind, mine, taker, taken FROM unnest(my_slices) AS mine
        ON CONFLICT (kind, slice) DO UPDATE SET holder = EXCLUDED.holder, epoch = EXCLUDED.epoch, since = now();
    RETURN taken;
END $$;

-- Raise LG001 unless the slice still has this epoch; until the caller's transaction ends, nobody else can claim it.
-- A function of an owner calls this as its first statement: statements after it see the outcome of a claim that it
-- waited for. Two different epochs in one transaction must be checked in ascending order, as claims lock them.
CREATE OR REPLACE FUNCTION ownership_check(my_kind text, my_slice integer, my_epoch bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1869375091, (my_epoch % 2147483647)::integer);
    IF (SELECT o.epoch FROM ownership o WHERE o.kind = my_kind AND o.slice = my_slice) IS DISTINCT FROM my_epoch THEN
        RAISE EXCEPTION 'slice % of % has another owner', my_slice, my_kind USING ERRCODE = 'LG001';
    END IF;
END $$;

-- Give those of these slices that still have their epoch, and hold off claims of them until the transaction ends.
-- For a write that touches whatever its owner holds. epochs: one of each slice.
CREATE OR REPLACE FUNCTION ownership_still(my_kind text, my_slices integer[], my_epochs bigint[])
RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    mine bigint;
BEGIN
    FOR mine IN SELECT DISTINCT e FROM unnest(my_epochs) AS e ORDER BY e LOOP
        PERFORM pg_advisory_xact_lock_shared(1869375091, (mine % 2147483647)::integer);
    END LOOP;
    RETURN ARRAY (
        SELECT o.slice FROM unnest(my_slices, my_epochs) AS m (slice, epoch)
        JOIN ownership o ON o.kind = my_kind AND o.slice = m.slice AND o.epoch = m.epoch ORDER BY 1);
END $$;

-- How many actors of a kind there shall be: as an operator commanded, while the setting is still the one of then; else
-- the setting's number, and the command is over.
CREATE OR REPLACE FUNCTION ownership_wanted(my_kind text, my_setting integer)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    found_wanted integer;
BEGIN
    DELETE FROM actor_counts c WHERE c.kind = my_kind AND c.setting <> my_setting;
    SELECT c.wanted INTO found_wanted FROM actor_counts c WHERE c.kind = my_kind;
    RETURN coalesce(found_wanted, my_setting);
END $$;

CREATE OR REPLACE FUNCTION ownership_set_wanted(my_kind text, my_wanted integer, my_setting integer)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO actor_counts (kind, wanted, setting) VALUES (my_kind, my_wanted, my_setting)
    ON CONFLICT (kind) DO UPDATE SET wanted = EXCLUDED.wanted, setting = EXCLUDED.setting, changed_at = now();
$$;
