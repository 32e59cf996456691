-- Rights of the product's role on the tables of signals, given anew at every start by the role that owns them.
-- :"product" stands for the role's name, as psql writes it.

REVOKE ALL ON signals, signals_archived FROM :"product";
REVOKE ALL ON FUNCTION signals_partitions(bigint, bigint, bigint) FROM PUBLIC;

-- The history only grows; days leave it by the function.
GRANT SELECT, INSERT ON signals TO :"product";
GRANT SELECT, UPDATE (cursor_ms, cursor_seq) ON signals_archived TO :"product";
GRANT EXECUTE ON FUNCTION signals_partitions(bigint, bigint, bigint) TO :"product";
