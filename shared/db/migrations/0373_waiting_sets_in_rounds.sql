-- The last of its waiting job sets for which a task asked queues in this round; 0: a round begins.
ALTER TABLE tasks ADD COLUMN co_jumbo_after bigint NOT NULL DEFAULT 0;
