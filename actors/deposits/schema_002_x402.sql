-- Payments of x402 clients, from the moment they are claimed. The primary key is what makes settling happen once:
-- whoever inserts the row settles the payment, everybody else finds it there.
CREATE TABLE x402_payments (
    message_hash bytea PRIMARY KEY,
    kind smallint NOT NULL,               -- x402_core.Kind
    state smallint NOT NULL,              -- x402_core.State; below 10: open
    payer bytea NOT NULL,
    amount_base_units bigint NOT NULL CHECK (amount_base_units > 0),
    transaction bytea NOT NULL,
    signature bytea NOT NULL,             -- empty until it is signed by all
    last_valid_height bigint NOT NULL,
    created_at_ms bigint NOT NULL,
    slot bigint NOT NULL,
    reason text NOT NULL,
    look_at_ms bigint NOT NULL            -- when somebody looks after it next; moved on by whoever does
);
CREATE INDEX x402_payments_open ON x402_payments (look_at_ms) WHERE state < 10;
CREATE INDEX x402_payments_by_payer ON x402_payments (payer, created_at_ms);
CREATE INDEX x402_payments_by_age ON x402_payments (created_at_ms) WHERE state >= 10;
CREATE INDEX x402_payments_by_signature ON x402_payments (signature);
