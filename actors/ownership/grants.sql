-- Rights of the product's role on the tables of ownership, given anew at every start by the role that owns them.
-- :"product" stands for the role's name, as psql writes it. A slice once claimed always has an owner, so no row of it
-- is removed.

REVOKE ALL ON ownership, actor_counts FROM :"product";
REVOKE ALL ON SEQUENCE ownership_epoch FROM :"product";

GRANT SELECT, INSERT, UPDATE (holder, epoch, since) ON ownership TO :"product";
GRANT USAGE ON SEQUENCE ownership_epoch TO :"product";
GRANT SELECT, INSERT, UPDATE (wanted, setting, changed_at), DELETE ON actor_counts TO :"product";
