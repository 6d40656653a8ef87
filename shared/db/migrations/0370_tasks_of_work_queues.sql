-- Tasks of a work queue that may make jobs, the most urgent first: asked when a work queue that is throttled by itself
-- has enough queued.
CREATE INDEX tasks_of_work_queues ON tasks (work_queue_id, current_priority DESC)
    WHERE work_queue_id IS NOT NULL AND status IN ('ready', 'scouting', 'running');
