-- When queues are asked for again for the job sets of a task that wait for real co-jumbo jobs; its other input does not
-- wait for that.
ALTER TABLE tasks ADD COLUMN co_jumbo_retry_at timestamptz;
CREATE INDEX tasks_co_jumbo_retry ON tasks (co_jumbo_retry_at)
    WHERE co_jumbo_retry_at IS NOT NULL AND status IN ('ready', 'scouting', 'running');
