-- Rights of the product's role on the tables of the nodes, given anew at every start by the role that owns them.
-- :"product" stands for the role's name, as psql writes it.

REVOKE ALL ON node_changes, node_versions, node_reports FROM :"product";

GRANT SELECT, INSERT, UPDATE, DELETE ON node_changes TO :"product";
GRANT SELECT, INSERT, UPDATE (version, network) ON node_versions TO :"product";
GRANT SELECT, INSERT, UPDATE (version, report, told_at), DELETE ON node_reports TO :"product";
