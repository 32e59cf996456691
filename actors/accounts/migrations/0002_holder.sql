-- Expand: an owner keeps its shards by its index, and they move while it runs
ALTER TABLE shard_owner ADD COLUMN holder integer;
