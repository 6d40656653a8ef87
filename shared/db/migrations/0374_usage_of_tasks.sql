-- Core seconds that jobs of a task had at each queue until they finished and failed, counted when their results are: the
-- HEP score rate of failures is that of these, and ended jobs leave the hot table. Jobs of the time before are not in it.
CREATE TABLE task_usage (
    task_id bigint NOT NULL REFERENCES tasks,
    queue text NOT NULL,
    finished_core_s double precision NOT NULL DEFAULT 0,
    failed_core_s double precision NOT NULL DEFAULT 0,
    PRIMARY KEY (task_id, queue)
);
