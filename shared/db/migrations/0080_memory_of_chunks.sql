-- Units of input whose memory was raised after a failure form chunks of their own. ram_mb: their memory, in MB for each
-- core or for the job, as the task's unit says; NULL: what the task says. retry_at: no queue took the chunk's memory, and
-- these units are not tried before, while the other units of the task go on.
ALTER TABLE chunks ADD COLUMN ram_mb bigint, ADD COLUMN retry_at timestamptz;

CREATE INDEX chunks_held ON chunks (task_id, retry_at) WHERE retry_at IS NOT NULL;
CREATE INDEX task_files_raised ON task_files (dataset_id, ram_count, file_id)
    WHERE ram_count IS NOT NULL AND status = 'ready';
