-- What its task asked of a queue when a chunk was offered: another number once that was changed.
ALTER TABLE chunks ADD COLUMN needs_key bigint;
