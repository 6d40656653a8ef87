-- name: next_queues
-- Queues that have live jobs or rows of the statistics, after one by name, with how many live jobs the statistics count
-- there. Indexes jobs_live, queue_statistics_pkey.
-- told by: nobody; brokerage and dispatch count jobs with it
WITH RECURSIVE named (queue, place) AS (
    SELECT least((SELECT queue FROM jobs WHERE queue > :after::text
                     AND status NOT IN ('finished', 'failed', 'closed', 'cancelled') ORDER BY queue LIMIT 1),
                 (SELECT queue FROM queue_statistics WHERE queue > :after::text ORDER BY queue LIMIT 1)), 1
    UNION ALL
    SELECT least((SELECT queue FROM jobs WHERE queue > n.queue
                     AND status NOT IN ('finished', 'failed', 'closed', 'cancelled') ORDER BY queue LIMIT 1),
                 (SELECT queue FROM queue_statistics WHERE queue > n.queue ORDER BY queue LIMIT 1)), n.place + 1
      FROM named n WHERE n.queue IS NOT NULL AND n.place <= :most::int)
SELECT n.queue,
       (SELECT coalesce(sum(greatest(s.n_jobs, 0)), 0)::bigint FROM queue_statistics s WHERE s.queue = n.queue) AS n_jobs
  FROM named n WHERE n.queue IS NOT NULL ORDER BY n.place;
