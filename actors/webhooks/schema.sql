-- Tables of webhooks: registrations, events, deliveries (jobs) and their attempts. *_ms are Unix milliseconds. Numbers of
-- states are in core.py.

CREATE TABLE webhooks (
    id               text    PRIMARY KEY,
    pubkey           bytea   NOT NULL,
    url              text    NOT NULL,
    filter_type      text    NOT NULL,
    filter_value     text,              -- As the customer gave it.
    -- An event matches when its type and subject are these, its kind is among the kinds, one of its wallets among the
    -- wallets, its mint this mint, its program among the programs (NULL: any), and its size, if it has one, is enough.
    subject          text    NOT NULL,
    kinds            text[],
    wallets          text[],
    mint             text,
    programs         text[],
    min_lamports     numeric(20) NOT NULL DEFAULT 0,
    secret           bytea   NOT NULL,  -- Sealed (sealing.py), as are those before it.
    previous_secrets bytea[] NOT NULL DEFAULT '{}',  -- The newest first; each is valid until the time at its place.
    previous_until_ms bigint[] NOT NULL DEFAULT '{}',
    status           text    NOT NULL DEFAULT 'active',
    disabled_reason  text,
    created_ms       bigint  NOT NULL,
    failing_since_ms bigint,            -- NULL: the newest attempt was a success, or there was none.
    look_ms          bigint,            -- When the dispatcher should look at its jobs; NULL: none waits.
    rest_until_ms    bigint  NOT NULL DEFAULT 0,  -- After a failure it is left alone until then.
    dropped_events   bigint  NOT NULL DEFAULT 0,  -- Made no job, because too many waited.
    dropped_at_ms    bigint,                      -- The newest of them.
    last_job         bigint,
    last_status      text,
    last_http_status integer,
    last_at_ms       bigint
) WITH (fillfactor = 70);
CREATE INDEX webhooks_pubkey ON webhooks (pubkey, created_ms);
CREATE INDEX webhooks_subject ON webhooks (filter_type, subject) WHERE status = 'active';
CREATE INDEX webhooks_look ON webhooks (look_ms) WHERE look_ms IS NOT NULL AND status = 'active';

-- One row for an event, however many webhooks it matches. cause: unique, so that an event seen twice is kept once.
-- kind: NULL is for every webhook of its type and subject, such as a gap.
CREATE TABLE webhook_events (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    cause       text   NOT NULL UNIQUE,
    filter_type text   NOT NULL,
    subject     text   NOT NULL,
    kind        text,
    at_ms       bigint NOT NULL,
    body        text   NOT NULL,
    is_free     boolean NOT NULL
);
CREATE INDEX webhook_events_at ON webhook_events (at_ms);

CREATE TABLE webhook_jobs (
    id         bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook_id text     NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    event      bigint   NOT NULL REFERENCES webhook_events,
    state      smallint NOT NULL DEFAULT 0,
    attempts   smallint NOT NULL DEFAULT 0,
    lease      integer  NOT NULL DEFAULT 0,  -- Counts the leases: the result of an earlier one is not taken.
    leased_by  text,
    due_ms     bigint   NOT NULL,            -- Leased: when the lease ends. Ended: when it ended.
    created_ms bigint   NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX webhook_jobs_due ON webhook_jobs (webhook_id, due_ms, id) WHERE state <= 1;
CREATE INDEX webhook_jobs_ended ON webhook_jobs (due_ms) WHERE state > 1;
CREATE INDEX webhook_jobs_unpaid ON webhook_jobs (webhook_id) WHERE state = 5;
CREATE INDEX webhook_jobs_log ON webhook_jobs (webhook_id, id);
CREATE INDEX webhook_jobs_event ON webhook_jobs (event);

CREATE TABLE webhook_attempts (
    job         bigint   NOT NULL REFERENCES webhook_jobs ON DELETE CASCADE,
    at_ms       bigint   NOT NULL,
    latency_ms  integer  NOT NULL,
    http_status integer,
    error       text     NOT NULL,
    answer      bytea    NOT NULL   -- At most its first kilobyte.
);
CREATE INDEX webhook_attempts_job ON webhook_attempts (job, at_ms);

-- Accounts whose deliveries pause, because one could not be charged.
CREATE TABLE webhook_debts (
    pubkey   bytea  PRIMARY KEY,
    since_ms bigint NOT NULL,
    look_ms  bigint NOT NULL
);

-- Where a source is to be resumed: the chain by its slot, the log of signals by its cursor.
CREATE TABLE webhook_cursor (
    name       text PRIMARY KEY,
    slot       bigint,
    log_cursor text
);

-- Facts about webhooks that the ledgers of their accounts do not have yet; a dispatcher tells them to the owners of the
-- accounts, and removes them. id: a later fact about a webhook has a higher one. is_change: only the newest change of a
-- webhook waits.
CREATE TABLE webhook_facts (
    id         bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pubkey     bytea   NOT NULL,
    webhook_id text    NOT NULL,
    body       jsonb   NOT NULL CHECK (jsonb_typeof(body) = 'object'),
    is_change  boolean NOT NULL DEFAULT false,
    at_ms      bigint  NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
);
CREATE INDEX webhook_facts_webhook_id ON webhook_facts (webhook_id);

CREATE TYPE webhooks_event AS (
    cause       text,
    filter_type text,
    subject     text,
    kind        text,
    wallets     text[],
    at_ms       bigint,
    body        text,
    mint        text,
    program     text,
    lamports    numeric,
    is_free     boolean
);

CREATE TYPE webhooks_claimed AS (
    job               bigint,
    lease             integer,
    attempts          smallint,
    webhook_id        text,
    pubkey            bytea,
    url               text,
    filter_type       text,
    secret            bytea,
    previous_secrets  bytea[],
    previous_until_ms bigint[],
    failing_since_ms  bigint,
    body              text,
    is_free           boolean
);

-- What came of one attempt. disable: why the webhook is disabled now, or NULL.
CREATE TYPE webhooks_result AS (
    job         bigint,
    lease       integer,
    state       smallint,
    due_ms      bigint,
    attempts    smallint,
    at_ms       bigint,
    latency_ms  integer,
    http_status integer,
    error       text,
    answer      bytea,
    disable     text
);
