-- Jobs point at what their order depends on; 0: at nothing, their share alone decides. A lane of the dispatcher is
-- (queue, share, order key, shape).
ALTER TABLE jobs ADD COLUMN order_key_id int NOT NULL DEFAULT 0;

DROP INDEX jobs_lane;
CREATE INDEX jobs_lane ON jobs (queue, gshare, order_key_id, shape_id, (-current_priority), job_id)
    WHERE status = 'activated';
-- how many jobs of each task queue wait, and whether one has jobs at all; jobs without a task queue are not in it
CREATE INDEX jobs_order_key ON jobs (order_key_id, status) WHERE order_key_id <> 0;

ALTER TABLE task_queues ADD COLUMN empty_since timestamptz;   -- no job has it; it is deleted a while later
