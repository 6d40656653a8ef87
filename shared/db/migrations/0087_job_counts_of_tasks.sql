-- How many jobs of a task finished and failed, counted when their results are: the failure rate of a task is that of
-- its jobs, and ended jobs leave the hot table.
CREATE TABLE task_job_counts (
    task_id bigint PRIMARY KEY REFERENCES tasks,
    n_finished bigint NOT NULL DEFAULT 0,
    n_failed bigint NOT NULL DEFAULT 0
);

INSERT INTO task_job_counts (task_id, n_finished, n_failed)
SELECT task_id, count(*) FILTER (WHERE status = 'finished'), count(*) FILTER (WHERE status = 'failed')
  FROM (SELECT task_id, status FROM jobs WHERE results_applied_at IS NOT NULL
        UNION ALL SELECT task_id, status FROM jobs_archive) ended
 WHERE status IN ('finished', 'failed')
 GROUP BY task_id;
