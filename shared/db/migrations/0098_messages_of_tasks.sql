-- The tasks that a message which cannot be handled is about: their owners see why nothing happens.
ALTER TABLE deferred_messages ADD COLUMN task_ids bigint[] NOT NULL DEFAULT '{}';
ALTER TABLE parked_messages ADD COLUMN task_ids bigint[] NOT NULL DEFAULT '{}';
CREATE INDEX deferred_messages_tasks ON deferred_messages USING gin (task_ids) WHERE task_ids <> '{}';
CREATE INDEX parked_messages_tasks ON parked_messages USING gin (task_ids)
 WHERE task_ids <> '{}' AND replayed_at IS NULL;
