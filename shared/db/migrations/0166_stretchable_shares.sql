-- Stretchable shares go before their siblings where others do not use what they are due.
ALTER TABLE shares ADD COLUMN stretchable boolean NOT NULL DEFAULT false;
