-- Table of signals: the history of the signal log, beyond what its stream keeps.

-- An entry of the log, with the two parts of its cursor. change: as in log.py; corrections are entries of their own.
CREATE TABLE signals (
    cursor_ms  bigint NOT NULL,
    cursor_seq bigint NOT NULL,
    change     text   NOT NULL,
    kind       text,               -- From here to mint: NULL for a gap.
    program    text,
    signature  text,
    slot       bigint,
    mint       text,
    body       bytea  NOT NULL,
    PRIMARY KEY (cursor_ms, cursor_seq)
) PARTITION BY RANGE (cursor_ms);
CREATE INDEX signals_by_mint ON signals (mint, cursor_ms);
CREATE INDEX signals_by_program ON signals (program, cursor_ms);
CREATE INDEX signals_by_kind ON signals (kind, cursor_ms);
-- Corrections and gaps are few, and looked up for every slice of an export.
CREATE INDEX signals_corrections ON signals (cursor_ms) WHERE change NOT IN ('event', 'restored');

-- Entries up to this cursor are in the table, and entries from `kept_from_ms` on are still in it.
CREATE TABLE signals_archived (
    one          boolean PRIMARY KEY DEFAULT true CHECK (one),
    cursor_ms    bigint  NOT NULL,
    cursor_seq   bigint  NOT NULL,
    kept_from_ms bigint  NOT NULL
);
INSERT INTO signals_archived VALUES (true, 0, 0, 0);
