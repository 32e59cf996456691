-- Rights of the product's role on the tables of deposits, given anew at every start by the role that owns them.
-- :"product" stands for the role's name, as psql writes it.

REVOKE ALL ON deposit_cursor, deposit_inbox, deposits, deposit_gaps, x402_payments FROM :"product";

GRANT SELECT, INSERT, UPDATE ON deposit_cursor, deposits TO :"product";
GRANT SELECT, INSERT ON deposit_gaps TO :"product";

-- A transaction leaves the inbox when it was looked at, and an old payment that has ended is forgotten.
GRANT SELECT, INSERT, UPDATE, DELETE ON deposit_inbox, x402_payments TO :"product";
