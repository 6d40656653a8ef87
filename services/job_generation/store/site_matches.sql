-- name: adverts_of_sites
-- What these sites advertised within the last minutes.
SELECT site, max_jobs, max_submitting_jobs, current_jobs, current_submitting_jobs, current_matches, requirements,
       advertisement, advertised_at, expires_at
FROM site_adverts WHERE site = ANY(:sites::text[]) AND expires_at > orrery_now() ORDER BY site;

-- name: requirements_of_task
-- The task's own expression about sites.
SELECT split_rule ->> 'requirements' FROM tasks WHERE task_id = :task_id;

-- name: count_matches
-- Compare and set: nothing if somebody else counted, or the site advertised, since it was read.
UPDATE site_adverts SET current_matches = current_matches + :n_jobs::int
WHERE site = :site AND current_matches = :seen::int AND advertised_at = :advertised_at::timestamptz
RETURNING site;
