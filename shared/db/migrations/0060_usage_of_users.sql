-- What an analysis decision reads of one user, one working group, and the queues that changed.
CREATE INDEX queue_statistics_user ON queue_statistics (user_name);
CREATE INDEX queue_outcomes_queue ON queue_outcomes (queue, hour);
CREATE INDEX tasks_working_group ON tasks (working_group) WHERE working_group <> '';
CREATE INDEX jobs_merging ON jobs (queue, creation_time)
    WHERE job_type = 'merge' AND status IN ('activated', 'starting');
