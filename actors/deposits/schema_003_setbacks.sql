-- Payments that landed and failed, whose fee the sponsor paid for nothing; and deposits that step aside for others.

ALTER TABLE x402_payments ADD COLUMN fee_lost boolean NOT NULL DEFAULT false;
CREATE INDEX x402_payments_fees_lost ON x402_payments (created_at_ms) WHERE fee_lost;

ALTER TABLE deposit_inbox ADD COLUMN try_at_ms bigint NOT NULL DEFAULT 0;   -- not looked at before
ALTER TABLE deposit_inbox ADD COLUMN waits_for text[] NOT NULL DEFAULT '{}'; -- authorities that could not be credited
CREATE INDEX deposit_inbox_aside ON deposit_inbox USING gin (waits_for) WHERE try_at_ms > 0;
