-- name: last_starts
-- When a job last started at each queue, or at one.
-- told by: nobody; time-out rules are asked with it
SELECT queue, last_job_start_at FROM queue_activity
 WHERE last_job_start_at IS NOT NULL AND (:queue::text IS NULL OR queue = :queue);

-- name: absent_queues
-- Queues that left the grid lately, or one, as they were.
-- told by: nobody; time-out rules are asked with it
SELECT queue, data, absent_since FROM absent_queues
 WHERE absent_since > orrery_now() - make_interval(secs => 3600 * :kept_h::float8)
   AND (:queue::text IS NULL OR queue = :queue);
