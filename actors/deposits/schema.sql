-- Deposits: how far the chain has been read, what is still to be looked at, and what became of every transfer.

CREATE TABLE IF NOT EXISTS deposit_cursor (
    account   text   PRIMARY KEY,      -- the deposit wallet's token account
    signature bytea  NOT NULL,         -- the newest transaction that was listed; empty: there was none yet
    slot      bigint NOT NULL,
    read_slot bigint NOT NULL          -- everything up to here was listed in deposit_inbox
);

-- Transactions that touch the account and were not looked at yet. position: falls from newest to oldest in a slot.
CREATE TABLE IF NOT EXISTS deposit_inbox (
    account    text    NOT NULL,
    signature  bytea   NOT NULL,
    slot       bigint  NOT NULL,
    position   bigint  NOT NULL,
    block_time bigint,
    failed     boolean NOT NULL,
    PRIMARY KEY (account, signature)
);
CREATE INDEX IF NOT EXISTS deposit_inbox_in_order ON deposit_inbox (account, slot, position);

-- Everything needed to explain a credit or its refusal. Numbers of status and words of reason are in core.py.
CREATE TABLE IF NOT EXISTS deposits (
    account        text     NOT NULL,
    signature      bytea    NOT NULL,
    transfer_index bigint   NOT NULL,
    slot           bigint   NOT NULL,
    block_time     bigint,
    status         smallint NOT NULL,
    reason         text     NOT NULL,
    amount         bigint   NOT NULL,  -- base units
    source         text     NOT NULL,
    authority      text     NOT NULL,
    pubkey         bytea,
    credits        bigint   NOT NULL,
    note           text     NOT NULL,
    recorded_at_ms bigint   NOT NULL,
    PRIMARY KEY (account, signature, transfer_index)
);
CREATE INDEX IF NOT EXISTS deposits_by_slot ON deposits (account, slot DESC);
CREATE INDEX IF NOT EXISTS deposits_listed ON deposits (account, slot DESC) WHERE status = 1;

-- Slots that no node could tell about any more when the watcher came back from an outage.
CREATE TABLE IF NOT EXISTS deposit_gaps (
    account       text   NOT NULL,
    after_slot    bigint NOT NULL,
    before_slot   bigint NOT NULL,
    noticed_at_ms bigint NOT NULL,
    PRIMARY KEY (account, after_slot, before_slot)
);
