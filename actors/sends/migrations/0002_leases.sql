-- Expand: several racers share the rate of a block engine.

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
