-- Rights of the product's role on the tables of sends, given anew at every start by the role that owns them.
-- :"product" stands for the role's name, as psql writes it.

REVOKE ALL ON send_races, send_tickets, send_ticket_keys, send_reports, send_leases FROM :"product";

-- What has ended long ago is forgotten; tickets and reports go with their race.
GRANT SELECT, INSERT, UPDATE, DELETE ON send_races TO :"product";
GRANT SELECT, INSERT ON send_tickets, send_ticket_keys, send_reports TO :"product";
GRANT UPDATE (charged, first) ON send_tickets TO :"product";
GRANT SELECT, INSERT, UPDATE (milli, until), DELETE ON send_leases TO :"product";
