-- Functions of signals, applied at every start.

-- Make the partitions of these days (numbers since 1970, UTC) where they are missing, and drop those before `keep_from`.
-- With the owner's rights, because the product's role may make no tables.
CREATE OR REPLACE FUNCTION signals_partitions(first_day bigint, last_day bigint, keep_from bigint)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    day_ms constant bigint := 86400000;
    found record;
BEGIN
    IF last_day - first_day > 400 THEN
        RAISE EXCEPTION 'signals_partitions: too many days';
    END IF;
    -- One caller at a time: two would make the same partition.
    PERFORM pg_advisory_xact_lock(hashtext('signals_partitions'));
    FOR day IN first_day..last_day LOOP
        EXECUTE format('CREATE TABLE IF NOT EXISTS signals_day_%s PARTITION OF signals FOR VALUES FROM (%s) TO (%s)',
                       day, day * day_ms, (day + 1) * day_ms);
    END LOOP;
    FOR found IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'signals'::regclass AND substring(c.relname FROM 13)::bigint < keep_from
    LOOP
        EXECUTE format('DROP TABLE %I', found.relname);
    END LOOP;
    UPDATE signals_archived SET kept_from_ms = greatest(kept_from_ms, keep_from * day_ms);
END $$;
