-- Expand: the most credits that an account spends in an hour
-- The most credits that an account spends in an hour, as its wallet chose (hourly_limit.py). credits: NULL: as it is
-- learnt; 0: there is no limit. No row: as it is learnt.
CREATE TABLE account_hourly_limits (
    pubkey       bytea  PRIMARY KEY,
    credits      bigint CHECK (credits >= 0),
    lifted_until bigint NOT NULL
);

-- Since when an account counts its spending of an hour: one row of each account that has spent, written with the first
-- debit of each hour.
CREATE TABLE account_hours (
    pubkey   bytea   PRIMARY KEY,
    hour     integer NOT NULL,  -- Since 1970, by the ledger's time.
    consumed bigint  NOT NULL,  -- Consumed credits of the account when it began.
    usual    bigint             -- Credits of a usual hour, as far as it was learnt; NULL: it was not.
) WITH (fillfactor = 70);
