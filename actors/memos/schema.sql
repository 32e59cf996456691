-- Memos of signed statements on the chain: one for each series and hour, whoever sends it.

CREATE TABLE root_memos (
    series      integer  NOT NULL,
    hour        bigint   NOT NULL,            -- Hours since 1970.
    number      bigint   NOT NULL,            -- Of the statement.
    digest      bytea    NOT NULL,            -- Its hash.
    attempt     integer  NOT NULL DEFAULT 0,  -- Transactions made so far; each write names the one that it knows.
    charged     integer  NOT NULL DEFAULT 0,  -- Transactions that failed on the chain, and paid for it.
    lamports    bigint   NOT NULL DEFAULT 0,  -- What the chain has charged in all.
    signature   bytea,                        -- Of the newest attempt, written before it is sent.
    transaction bytea,
    valid_to    bigint,                       -- The last block height at which it can land.
    outcome     text CHECK (outcome IN ('landed', 'lost')),  -- NULL: it is under way.
    PRIMARY KEY (series, hour)
);
CREATE INDEX root_memos_open ON root_memos (hour) WHERE outcome IS NULL;
