-- Expand: named keys of accounts, and what they have spent
-- Named keys of accounts. number: from 1 in each account. Rows stay when their key is deleted: entries of the ledger name
-- them, and neither number nor hash is ever used again. limits: JSON (named_keys.py).
CREATE TABLE account_keys (
    pubkey     bytea   NOT NULL,
    number     integer NOT NULL CHECK (number > 0),
    name       text    NOT NULL,
    key_hash   bytea   NOT NULL UNIQUE,
    key_prefix text    NOT NULL,
    limits     text    NOT NULL,
    created_at bigint  NOT NULL,
    status     text    NOT NULL,
    -- Of the text before the last rotation, and until when it is good.
    old_hash   bytea,
    old_until  bigint  NOT NULL,
    parent     integer NOT NULL,  -- Number of the key from which it was made; 0: of none.
    -- By which keys made from it are checked, and that of the text before; of such a key, its parent's, and its name.
    public     bytea,
    old_public bytea,
    signed_by  bytea,
    block      bytea   UNIQUE,
    PRIMARY KEY (pubkey, number)
);
CREATE INDEX account_keys_public ON account_keys (public) WHERE block IS NULL;
CREATE INDEX account_keys_old_public ON account_keys (old_public) WHERE old_public IS NOT NULL;
CREATE INDEX account_keys_old_hash ON account_keys (old_hash) WHERE old_hash IS NOT NULL;

-- What each named key has spent, less what was refunded. day: since 1970, the one that in_day is of.
CREATE TABLE account_key_spending (
    pubkey bytea   NOT NULL,
    number integer NOT NULL,
    total  bigint  NOT NULL CHECK (total >= 0),
    day    integer NOT NULL,
    in_day bigint  NOT NULL CHECK (in_day >= 0),
    PRIMARY KEY (pubkey, number)
) WITH (fillfactor = 50);  -- Changes with each call, on its own page.

-- The part of account_usage that named keys have brought about. The same account, hour and method may have more calls,
-- by other credentials.
CREATE TABLE account_key_usage (
    pubkey  bytea   NOT NULL,
    hour    integer NOT NULL,
    method  text    NOT NULL,
    key     integer NOT NULL,
    calls   bigint  NOT NULL,
    credits bigint  NOT NULL,
    PRIMARY KEY (pubkey, hour, method, key)
) WITH (fillfactor = 70);

-- Credits that a named key has spent, as account_key_spending has them.
CREATE TYPE accounts_spent AS (
    pubkey bytea,
    number integer,
    total  bigint,
    day    integer,
    in_day bigint
);
