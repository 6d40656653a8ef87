-- name: live_adverts
-- What sites say of themselves that is still believed, and for how much longer.
SELECT a.site, a.max_jobs, a.max_submitting_jobs, a.current_jobs, a.current_submitting_jobs, a.current_matches,
       a.requirements, a.advertisement, a.advertised_at,
       extract(epoch FROM a.expires_at - orrery_now())::float AS left_s
  FROM site_adverts a WHERE a.expires_at > orrery_now() ORDER BY a.site;

-- name: advertise_site
-- What was matched since the last advertisement is in the site's own numbers now.
-- done for: NAMED
INSERT INTO site_adverts (site, max_jobs, max_submitting_jobs, current_jobs, current_submitting_jobs, current_matches,
                          requirements, advertisement, expires_at)
SELECT :site::text, :max_jobs::int, :max_submitting_jobs::int, :current_jobs::int, :current_submitting_jobs::int,
       :current_jobs::int, :requirements::text, :advertisement::jsonb, :expires_at::timestamptz
ON CONFLICT (site) DO UPDATE
SET max_jobs = excluded.max_jobs, max_submitting_jobs = excluded.max_submitting_jobs,
    current_jobs = excluded.current_jobs, current_submitting_jobs = excluded.current_submitting_jobs,
    current_matches = excluded.current_jobs, requirements = excluded.requirements,
    advertisement = excluded.advertisement, advertised_at = orrery_now(), expires_at = excluded.expires_at;
