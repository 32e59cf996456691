-- Outside a transaction: pages of a ledger by type read what they show, and not all charges behind it
-- Entries that are no charges (type 2) are few, so that this index costs a call nothing. method stands last: refunds of one
-- method are found in the index alone.
CREATE INDEX CONCURRENTLY ledger_other_types ON ledger (pubkey, type, at_ms, seq, method) WHERE type <> 2;
