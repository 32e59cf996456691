-- Rights of the product's role on the memos, given anew at every start by the role that owns the table.
-- :"product" stands for the role's name, as psql writes it. A memo's statement never changes, and none is removed.

REVOKE ALL ON root_memos FROM :"product";
GRANT SELECT, INSERT, UPDATE (attempt, charged, lamports, signature, transaction, valid_to, outcome) ON root_memos
    TO :"product";
