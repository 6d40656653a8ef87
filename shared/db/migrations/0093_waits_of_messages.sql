-- How often in a row a deferred message could not be handled because another transaction held a row that it needs:
-- no failure of the message, so `attempts` does not count it.
ALTER TABLE deferred_messages ADD COLUMN waits int NOT NULL DEFAULT 0;
