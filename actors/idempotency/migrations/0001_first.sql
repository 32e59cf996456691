-- First: the tables of release 0.1.0. Databases of that release are found by the checksum of this file.

-- Tables of idempotency: the keys of requests that were sent in the last 24 hours, and their answers.

-- Columns are in the order of core.KeyRecord. Times are milliseconds of Unix time.
CREATE TABLE idempotency_keys (
    scope          bytea    NOT NULL,
    key            text     NOT NULL,
    fingerprint    bytea    NOT NULL,
    operation      bytea    NOT NULL,
    attempt        bytea    NOT NULL,
    lease_until_ms bigint   NOT NULL,
    expires_at_ms  bigint   NOT NULL,
    answered       boolean  NOT NULL,
    charged        bigint   NOT NULL CHECK (charged >= 0),
    answer         bytea    NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (expires_at_ms);

-- How many keys each scope has, because counting them would take longer with each.
CREATE TABLE idempotency_counts (
    scope bytea   PRIMARY KEY,
    kept  integer NOT NULL CHECK (kept >= 0)
);
