-- Two roles on a PostgreSQL of your own: one owns the tables, the other runs the product. Run it once as an
-- administrator, connected to the database that the product is to use:
--
--   psql -v owner_password=... -v product_password=... -f actors/launch/roles.sql "postgresql://admin@host/database"
--
-- Then set, for every start:
--   DATABASE_URL=postgresql://ledger_gateway:...@host/database
--   LEDGER_STORAGE__POSTGRES_MIGRATIONS_URL=postgresql://ledger_owner:...@host/database
-- Every start with both gives ledger_gateway the rights in actors/accounts/grants.sql and actors/deposits/grants.sql,
-- and takes all others on these tables from it. Once `python serve_app.py migrate` has run, starts of the same version
-- need DATABASE_URL alone.

CREATE ROLE ledger_gateway LOGIN PASSWORD :'product_password';
CREATE ROLE ledger_owner LOGIN PASSWORD :'owner_password';

-- PostgreSQL 14 lets every role make tables and functions in this schema.
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO ledger_gateway, ledger_owner;
GRANT CREATE ON SCHEMA public TO ledger_owner;

-- A database that the product has used with one role before: name that role, and its tables change hands.
-- REASSIGN OWNED BY earlier_role TO ledger_owner;
