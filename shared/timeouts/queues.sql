-- name: last_starts
-- When a job last started at each queue, or at one.
-- told by: nobody; time-out rules are asked with it
SELECT queue, last_job_start_at FROM queue_activity
 WHERE last_job_start_at IS NOT NULL AND (:queue::text IS NULL OR queue = :queue);
