-- Expand: the most credits that an account spends in an hour
-- The most credits that an account spends in an hour, as its wallet chose (hourly_limit.py). credits: NULL: as it is
-- learnt; 0: there is no limit. No row: as it is learnt.
CREATE TABLE account_hourly_limits (
    pubkey       bytea  PRIMARY KEY,
    credits      bigint CHECK (credits >= 0),
    lifted_until bigint NOT NULL
);
