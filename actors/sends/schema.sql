-- Tables of sends: races of transactions, the calls that share them, and what each leg did.

-- A row is here before the first byte of its transaction leaves. Numbers of states are in core.py; from 10 on it has
-- ended. Columns are in the order of core.Race.
CREATE TABLE send_races (
    signature         bytea    PRIMARY KEY,
    transaction       bytea    NOT NULL,
    blockhash         bytea    NOT NULL,
    nonce_account     text,
    last_valid_height bigint   NOT NULL,
    started_at_ms     bigint   NOT NULL,
    started_slot      bigint   NOT NULL,
    window_at_ms      bigint   NOT NULL,
    window_slot       bigint   NOT NULL,
    last_slot         bigint   NOT NULL,
    broadcasts        integer  NOT NULL CHECK (broadcasts BETWEEN 0 AND 3),
    retries           integer  NOT NULL,
    sent              boolean  NOT NULL,
    state             smallint NOT NULL,
    slot              bigint   NOT NULL,
    error             text     NOT NULL,
    ended_at_ms       bigint   NOT NULL,
    look_at_ms        bigint   NOT NULL,               -- Time of the next look at it; whoever looks moves it on.
    settled           boolean  NOT NULL DEFAULT false  -- It has ended, and so have the holds of all its tickets.
);
CREATE INDEX send_races_unsettled ON send_races (look_at_ms) WHERE NOT settled;
CREATE INDEX send_races_by_age ON send_races (ended_at_ms) WHERE settled;

-- The share of each call in a race. operation: of the hold that it ends. charged: NULL until then.
CREATE TABLE send_tickets (
    operation    bytea   PRIMARY KEY,
    pubkey       bytea   NOT NULL,
    epoch        bigint  NOT NULL,
    method       text    NOT NULL,
    landing      bigint  NOT NULL CHECK (landing > 0),
    base         bigint  NOT NULL CHECK (base BETWEEN 0 AND landing),
    signature    bytea   NOT NULL REFERENCES send_races ON DELETE CASCADE,
    opened_at_ms bigint  NOT NULL,
    first        boolean NOT NULL,
    charged      bigint  CHECK (charged BETWEEN 0 AND landing)
);
CREATE INDEX send_tickets_by_race ON send_tickets (signature, pubkey, opened_at_ms, operation);
-- Those that have not ended: of a race, and of an account.
CREATE INDEX send_tickets_waiting ON send_tickets (signature, operation) WHERE charged IS NULL;
CREATE INDEX send_tickets_open ON send_tickets (pubkey) WHERE charged IS NULL;
-- One ticket of a race pays for the landing.
CREATE UNIQUE INDEX send_tickets_first ON send_tickets (signature) WHERE first;

-- Tickets that a named key of their account pays for. A table of its own, because release 0.1.0 writes whole rows of
-- send_tickets.
CREATE TABLE send_ticket_keys (
    operation bytea   PRIMARY KEY REFERENCES send_tickets ON DELETE CASCADE,
    key       integer NOT NULL CHECK (key > 0)
);

-- Who may ask a block engine how often. Rows of one engine that are valid never add up to more than its rate. racer: its
-- name. process: a name of its own for each process. milli: thousandths of a request a second.
CREATE TABLE send_leases (
    engine  text        NOT NULL,
    process text        NOT NULL,
    racer   text        NOT NULL,
    milli   bigint      NOT NULL CHECK (milli >= 0),
    until   timestamptz NOT NULL,
    PRIMARY KEY (engine, process)
);

-- What each leg did with each broadcast. Times are milliseconds of Unix time; NULL: it did not come to that.
CREATE TABLE send_reports (
    signature       bytea   NOT NULL REFERENCES send_races ON DELETE CASCADE,
    number          bigint  GENERATED ALWAYS AS IDENTITY,
    broadcast       integer NOT NULL,
    leg             text    NOT NULL,
    submitted_ms    bigint,
    acknowledged_ms bigint,
    error           text    NOT NULL,
    refused         boolean NOT NULL,  -- The other side said that it does not take the transaction.
    PRIMARY KEY (signature, number),
    UNIQUE (signature, broadcast, leg)
);
