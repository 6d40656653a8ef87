-- The counters of job sets follow their ranges in one statement: first so many ranges of a state, then their sets. What
-- did it before made JSON of the counts and planned the update of the sets each time.
CREATE OR REPLACE FUNCTION count_updated_ranges() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE job_sets s SET
           n_ready = s.n_ready + d.n_ready, n_exhausted = s.n_exhausted + d.n_exhausted,
           n_processing = s.n_processing + d.n_processing, n_finished = s.n_finished + d.n_finished,
           n_done = s.n_done + d.n_done, n_merged = s.n_merged + d.n_merged, n_fatal = s.n_fatal + d.n_fatal
      FROM (SELECT c.job_set_id, coalesce(sum(c.n) FILTER (WHERE c.status = 0 AND c.has_attempt), 0) AS n_ready,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 0 AND NOT c.has_attempt), 0) AS n_exhausted,
                   coalesce(sum(c.n) FILTER (WHERE c.status IN (1, 2)), 0) AS n_processing,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 3), 0) AS n_finished,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 6), 0) AS n_done,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 9), 0) AS n_merged,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 8), 0) AS n_fatal
              FROM (SELECT job_set_id, status, attempt_nr > 0 AS has_attempt, count(*) AS n
                      FROM new_rows WHERE job_set_id IS NOT NULL GROUP BY 1, 2, 3
                    UNION ALL SELECT job_set_id, status, attempt_nr > 0 AS has_attempt, -count(*) AS n
                      FROM old_rows WHERE job_set_id IS NOT NULL GROUP BY 1, 2, 3) c
             GROUP BY c.job_set_id) d
     WHERE s.job_set_id = d.job_set_id;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION count_inserted_ranges() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE job_sets s SET
           n_ready = s.n_ready + d.n_ready, n_exhausted = s.n_exhausted + d.n_exhausted,
           n_processing = s.n_processing + d.n_processing, n_finished = s.n_finished + d.n_finished,
           n_done = s.n_done + d.n_done, n_merged = s.n_merged + d.n_merged, n_fatal = s.n_fatal + d.n_fatal
      FROM (SELECT c.job_set_id, coalesce(sum(c.n) FILTER (WHERE c.status = 0 AND c.has_attempt), 0) AS n_ready,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 0 AND NOT c.has_attempt), 0) AS n_exhausted,
                   coalesce(sum(c.n) FILTER (WHERE c.status IN (1, 2)), 0) AS n_processing,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 3), 0) AS n_finished,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 6), 0) AS n_done,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 9), 0) AS n_merged,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 8), 0) AS n_fatal
              FROM (SELECT job_set_id, status, attempt_nr > 0 AS has_attempt, count(*) AS n
                      FROM new_rows WHERE job_set_id IS NOT NULL GROUP BY 1, 2, 3) c
             GROUP BY c.job_set_id) d
     WHERE s.job_set_id = d.job_set_id;
    RETURN NULL;
END $$;

DROP FUNCTION count_ranges_of_sets(jsonb);
