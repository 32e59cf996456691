-- Tables of ownership: which actor holds each slice of the work of a kind, and how many actors an operator wants.

CREATE TABLE ownership (
    kind   text        NOT NULL,
    slice  integer     NOT NULL CHECK (slice >= 0),
    holder text        NOT NULL,
    epoch  bigint      NOT NULL,
    since  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (kind, slice)
) WITH (fillfactor = 70);

-- Each claim takes one number for all its slices. No two claims have the same number.
CREATE SEQUENCE ownership_epoch;

-- An operator's command. setting: the number in the settings when the command was given; another one ends the command.
CREATE TABLE actor_counts (
    kind       text        PRIMARY KEY,
    wanted     integer     NOT NULL CHECK (wanted > 0),
    setting    integer     NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now()
);
