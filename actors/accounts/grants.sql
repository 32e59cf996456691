-- Rights of the product's role on the tables of accounts, given anew at every start by the role that owns them.
-- :"product" stands for the role's name, as psql writes it. The ledger takes new entries and nothing else; a row that
-- must never change has no UPDATE, and a column that may change is named.

REVOKE ALL ON shard_owner, accounts, credit_batches, ledger, account_debits, account_operations, referral_codes,
    account_deposits, account_events, account_facts, account_fact_heads, account_usage, account_usage_marks,
    account_edges, account_statements, account_seals, ledger_keys, account_keys, account_key_spending,
    account_key_usage, account_hourly_limits, account_price_lists,
    account_hours, ledger_cuts, ledger_carried, ledger_kept_facts FROM :"product";
REVOKE ALL ON SEQUENCE shard_epoch FROM :"product";
REVOKE ALL ON FUNCTION accounts_partition(bigint) FROM PUBLIC, :"product";

GRANT SELECT, INSERT ON ledger, account_debits, account_operations, account_facts TO :"product";

GRANT SELECT, INSERT, UPDATE (epoch, owner, holder) ON shard_owner TO :"product";
GRANT USAGE ON SEQUENCE shard_epoch TO :"product";

GRANT SELECT, INSERT, UPDATE (
    status, api_key_hash, key_prefix, requests_per_second, concurrency, last_deposit, balance, total_consumed,
    last_batch, seq, last_ms, head_hash
) ON accounts TO :"product";
GRANT SELECT, INSERT, UPDATE (remaining) ON credit_batches TO :"product";
GRANT SELECT, INSERT, UPDATE (returned_ms, taken, uncollected) ON account_deposits TO :"product";
GRANT SELECT, INSERT, UPDATE (expires_at) ON referral_codes TO :"product";
GRANT SELECT, INSERT, UPDATE (seq, hash) ON account_fact_heads TO :"product";

-- The rollup follows the ledger: it grows, and nothing of it is removed.
GRANT SELECT, INSERT, UPDATE (calls, credits) ON account_usage TO :"product";
GRANT SELECT, INSERT, UPDATE (at_ms, seq) ON account_usage_marks TO :"product";

GRANT SELECT, INSERT, UPDATE (calls, credits) ON account_key_usage TO :"product";

-- A key is changed and never removed.
GRANT SELECT, INSERT, UPDATE (name, key_hash, key_prefix, limits, status, old_hash, old_until, public, old_public) ON
    account_keys
    TO :"product";
GRANT SELECT, INSERT, UPDATE (total, day, in_day) ON account_key_spending TO :"product";

GRANT SELECT, INSERT, UPDATE (credits, lifted_until) ON account_hourly_limits TO :"product";
GRANT SELECT, INSERT, UPDATE (name) ON account_price_lists TO :"product";
GRANT SELECT, INSERT, UPDATE (hour, consumed, usual) ON account_hours TO :"product";

-- Lists of what is under way; they say which charges are refunded, and a replica's list goes with it.
GRANT SELECT, INSERT, UPDATE (owners, epoch, undelivered), DELETE ON account_edges TO :"product";

-- Events that were told are removed after a while.
GRANT SELECT, INSERT, UPDATE (told), DELETE ON account_events TO :"product";

-- Makes a month's partition with the rights of the tables' owner.
GRANT EXECUTE ON FUNCTION accounts_partition(bigint) TO :"product";

-- Statements are made and never changed; a key is retired once.
GRANT SELECT, INSERT ON account_statements TO :"product";
GRANT SELECT, INSERT, UPDATE (seq, at_ms) ON account_seals TO :"product";
GRANT SELECT, INSERT, UPDATE (retired_ms) ON ledger_keys TO :"product";

-- Months of the ledger are detached by the role that owns the tables alone.
GRANT SELECT ON ledger_cuts, ledger_carried, ledger_kept_facts TO :"product";
