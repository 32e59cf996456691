-- Rights of the product's role on the tables of webhooks, given anew at every start by the role that owns them.
-- :"product" stands for the role's name, as psql writes it.

REVOKE ALL ON webhooks, webhook_events, webhook_jobs, webhook_attempts, webhook_debts, webhook_cursor, webhook_facts
    FROM :"product";

GRANT SELECT, INSERT, UPDATE, DELETE ON webhooks, webhook_debts, webhook_cursor TO :"product";
GRANT SELECT, INSERT, DELETE ON webhook_events, webhook_attempts, webhook_facts TO :"product";
GRANT SELECT, INSERT, UPDATE (state, attempts, lease, leased_by, due_ms), DELETE ON webhook_jobs TO :"product";
