-- Expand: the price list that an operator gave to an account
-- The price list that an operator gave to an account. name: as the settings have it (pricing.lists); empty: the public
-- prices again. No row: the public prices.
CREATE TABLE account_price_lists (
    pubkey bytea PRIMARY KEY,
    name   text  NOT NULL
);
