-- Whose payments fail on the chain at the sponsor's cost, and one sponsored payment at a time for each payer.

ALTER TABLE x402_payments ADD COLUMN source bytea NOT NULL DEFAULT '';      -- token account that the money leaves
ALTER TABLE x402_payments ADD COLUMN newcomer boolean NOT NULL DEFAULT false; -- no payment of this wallet had landed
ALTER TABLE x402_payments ADD COLUMN brought_by text NOT NULL DEFAULT '';   -- client address, of newcomers alone

-- What makes it one at a time: kind 2 pays its own fee; from state 2 on a payment has landed or ended. Rows from before
-- this file have no source and are left out, since several of one payer may be open.
CREATE UNIQUE INDEX x402_payments_one_of_a_payer ON x402_payments (payer)
    WHERE state < 2 AND kind <> 2 AND source <> '';
CREATE UNIQUE INDEX x402_payments_one_of_a_source ON x402_payments (source)
    WHERE state < 2 AND kind <> 2 AND source <> '';

CREATE INDEX x402_payments_lost_by_payer ON x402_payments (payer) WHERE fee_lost AND kind <> 2;
CREATE INDEX x402_payments_lost_by_source ON x402_payments (source) WHERE fee_lost AND kind <> 2;
CREATE INDEX x402_payments_landed ON x402_payments (payer) WHERE state IN (2, 10);
CREATE INDEX x402_payments_of_newcomers ON x402_payments (created_at_ms) WHERE newcomer AND (fee_lost OR state < 2);
DROP INDEX x402_payments_fees_lost;
