-- Expand: each registration, change and deletion of a webhook is a fact in the ledger of its account
-- Facts about webhooks that the ledgers of their accounts do not have yet; a dispatcher tells them to the owners of the
-- accounts, and removes them. id: a later fact about a webhook has a higher one. is_change: only the newest change of a
-- webhook waits.
CREATE TABLE webhook_facts (
    id         bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pubkey     bytea   NOT NULL,
    webhook_id text    NOT NULL,
    body       jsonb   NOT NULL CHECK (jsonb_typeof(body) = 'object'),
    is_change  boolean NOT NULL DEFAULT false,
    at_ms      bigint  NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
);
CREATE INDEX webhook_facts_webhook_id ON webhook_facts (webhook_id);

-- What was registered before, as webhooks_chosen() in functions.sql has it.
INSERT INTO webhook_facts (pubkey, webhook_id, body)
SELECT pubkey, id, jsonb_build_object(
    'id', id, 'url_hash', encode(sha256(convert_to(url, 'UTF8')), 'hex'), 'filter_type', filter_type,
    'filter_value', filter_value, 'subject', subject, 'kinds', kinds, 'wallets', wallets, 'mint', mint,
    'programs', programs, 'min_lamports', min_lamports)
FROM webhooks WHERE status <> 'deleted' ORDER BY created_ms, id;
