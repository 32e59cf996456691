-- Rights of the product's role on the tables of idempotency, given anew at every start by the role that owns them.
-- :"product" stands for the role's name, as psql writes it.

REVOKE ALL ON idempotency_keys, idempotency_counts FROM :"product";
GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_keys, idempotency_counts TO :"product";
