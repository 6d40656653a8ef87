-- Queues for jumbo jobs that passed every filter of the last brokerage of a task, ranked or not: [[queue, resource type]].
ALTER TABLE tasks ADD COLUMN jumbo_queues jsonb;
