-- Once, on a restored copy that was verified, before the product starts on it; with the role that owns the tables:
--   psql "$LEDGER_STORAGE__POSTGRES_MIGRATIONS_URL" -v ON_ERROR_STOP=1 -f deploy/backups/after-restore.sql
-- Numbers that were given out after the restored time are not given out again. A process of the time before the restore
-- that is still alive somewhere then has no epoch that a new owner has too, and no webhook gets the event id of another
-- event that it has received already. Running it twice is harmless.
SELECT setval('shard_epoch', nextval('shard_epoch') + 1000000) AS shard_epoch,
       setval('ownership_epoch', nextval('ownership_epoch') + 1000000) AS ownership_epoch,
       setval(pg_get_serial_sequence('webhook_jobs', 'id'),
              nextval(pg_get_serial_sequence('webhook_jobs', 'id')) + 1000000000) AS webhook_jobs;
