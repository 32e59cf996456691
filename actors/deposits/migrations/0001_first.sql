-- First: the tables of release 0.1.0. Databases of that release are found by the checksum of this file.

-- Tables of deposits: the watcher's place on the chain, the transactions it has still to look at, the outcome of every
-- transfer, and the payments of x402 clients.

CREATE TABLE deposit_cursor (
    account   text   PRIMARY KEY,      -- The deposit wallet's token account.
    signature bytea  NOT NULL,         -- Of the newest transaction that was listed; empty: there was none yet.
    slot      bigint NOT NULL,
    read_slot bigint NOT NULL          -- Everything up to this slot was listed in deposit_inbox.
);

-- Transactions that touch the account and were not looked at yet. position: falls from newest to oldest in a slot.
CREATE TABLE deposit_inbox (
    account    text    NOT NULL,
    signature  bytea   NOT NULL,
    slot       bigint  NOT NULL,
    position   bigint  NOT NULL,
    block_time bigint,
    failed     boolean NOT NULL,
    try_at_ms  bigint  NOT NULL DEFAULT 0,   -- 0: the watcher did not look at it before.
    waits_for  text[]  NOT NULL DEFAULT '{}', -- Authorities that could not be credited.
    PRIMARY KEY (account, signature)
);
CREATE INDEX deposit_inbox_in_order ON deposit_inbox (account, slot, position);
CREATE INDEX deposit_inbox_aside ON deposit_inbox USING gin (waits_for) WHERE try_at_ms > 0;

-- Everything needed to explain a credit or its refusal. Numbers of status and words of reason are in core.py.
CREATE TABLE deposits (
    account        text     NOT NULL,
    signature      bytea    NOT NULL,
    transfer_index bigint   NOT NULL,
    slot           bigint   NOT NULL,
    block_time     bigint,
    status         smallint NOT NULL,
    reason         text     NOT NULL,
    amount         bigint   NOT NULL,  -- Base units.
    source         text     NOT NULL,
    authority      text     NOT NULL,
    pubkey         bytea,
    credits        bigint   NOT NULL,
    note           text     NOT NULL,
    recorded_at_ms bigint   NOT NULL,
    PRIMARY KEY (account, signature, transfer_index)
);
CREATE INDEX deposits_by_slot ON deposits (account, slot DESC);
CREATE INDEX deposits_listed ON deposits (account, slot DESC) WHERE status = 1;

-- Slots that no node could tell about any more when the watcher came back from an outage.
CREATE TABLE deposit_gaps (
    account       text   NOT NULL,
    after_slot    bigint NOT NULL,
    before_slot   bigint NOT NULL,
    noticed_at_ms bigint NOT NULL,
    PRIMARY KEY (account, after_slot, before_slot)
);

-- Payments of x402 clients, from the moment they are claimed. The primary key makes settling happen once: the process
-- that inserts the row settles the payment, and every other process finds the row.
CREATE TABLE x402_payments (
    message_hash      bytea    PRIMARY KEY,
    kind              smallint NOT NULL,  -- x402_core.PaymentKind
    state             smallint NOT NULL,  -- x402_core.PaymentState; below 10: open
    payer             bytea    NOT NULL,
    amount_base_units bigint   NOT NULL CHECK (amount_base_units > 0),
    transaction       bytea    NOT NULL,
    signature         bytea    NOT NULL,  -- Empty until all have signed.
    last_valid_height bigint   NOT NULL,
    created_at_ms     bigint   NOT NULL,
    slot              bigint   NOT NULL,
    reason            text     NOT NULL,
    look_at_ms        bigint   NOT NULL,  -- Time of the next look at it; the process that looks moves it on.
    fee_lost          boolean  NOT NULL DEFAULT false, -- The payment landed and failed: the sponsor paid for nothing.
    source            bytea    NOT NULL DEFAULT '',    -- Token account that the money leaves.
    newcomer          boolean  NOT NULL DEFAULT false, -- No payment of this wallet had landed.
    brought_by        text     NOT NULL DEFAULT ''     -- Client address, of newcomers alone.
);
CREATE INDEX x402_payments_open ON x402_payments (look_at_ms) WHERE state < 10;
CREATE INDEX x402_payments_by_payer ON x402_payments (payer, created_at_ms);
CREATE INDEX x402_payments_by_age ON x402_payments (created_at_ms) WHERE state >= 10;
CREATE INDEX x402_payments_by_signature ON x402_payments (signature);

-- These two let a wallet, and a token account, have one sponsored payment under way: kind 2 pays its own fee, and from
-- state 2 on a payment has landed or ended. A row without a source excludes no other.
CREATE UNIQUE INDEX x402_payments_one_of_a_payer ON x402_payments (payer)
    WHERE state < 2 AND kind <> 2 AND source <> '';
CREATE UNIQUE INDEX x402_payments_one_of_a_source ON x402_payments (source)
    WHERE state < 2 AND kind <> 2 AND source <> '';

CREATE INDEX x402_payments_lost_by_payer ON x402_payments (payer) WHERE fee_lost AND kind <> 2;
CREATE INDEX x402_payments_lost_by_source ON x402_payments (source) WHERE fee_lost AND kind <> 2;
CREATE INDEX x402_payments_landed ON x402_payments (payer) WHERE state IN (2, 10);
CREATE INDEX x402_payments_of_newcomers ON x402_payments (created_at_ms) WHERE newcomer AND (fee_lost OR state < 2);
