-- Expand: named keys pay for tickets.

-- Tickets that a named key of their account pays for. A table of its own, because release 0.1.0 writes whole rows of
-- send_tickets.
CREATE TABLE send_ticket_keys (
    operation bytea   PRIMARY KEY REFERENCES send_tickets ON DELETE CASCADE,
    key       integer NOT NULL CHECK (key > 0)
);
