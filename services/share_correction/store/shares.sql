-- Shares and their correction factors.

-- name: users_of_shares
-- Whoever has live jobs of each share.
SELECT DISTINCT gshare, user_name FROM queue_statistics WHERE n_jobs > 0
   AND status NOT IN ('finished', 'failed', 'closed', 'cancelled')
 ORDER BY gshare, user_name;

-- name: shares
-- The tree of shares with its correction factors.
-- told by: STATES
SELECT gshare, value, parent, correction_factor, vo, stretchable FROM shares ORDER BY position;

-- name: list_shares
-- The tree of shares with what runs and waits in each, for people.
-- told by: STATES
SELECT s.*, coalesce(u.running_jobs, 0) AS running_jobs, coalesce(u.running_cores, 0) AS running_cores,
       coalesce(u.queued_jobs, 0) AS queued_jobs
  FROM shares s
  LEFT JOIN (SELECT gshare,
                    sum(n_jobs) FILTER (WHERE status = 'running')::bigint AS running_jobs,
                    sum(n_cores) FILTER (WHERE status = 'running')::bigint AS running_cores,
                    sum(n_jobs) FILTER (WHERE status = 'activated')::bigint AS queued_jobs
               FROM queue_statistics GROUP BY gshare) u ON u.gshare = s.gshare
 ORDER BY s.position;

-- name: user_corrections
-- Correction factors of users, for people. A name is told to whoever may read a live task of that user.
-- told by: DETAILS
SELECT c.gshare, CASE WHEN :produced_vos::text[] IS NULL OR EXISTS (
           SELECT FROM tasks t
            WHERE t.user_name = c.user_name AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
              AND orrery_may_read(t.user_name, t.vo, :reader::text, :own_vos::text[], :produced_vos::text[]))
       THEN c.user_name END AS user_name, c.correction_factor, c.corrected_at
  FROM user_corrections c ORDER BY c.gshare, 2, c.correction_factor, c.corrected_at;

-- name: set_corrections
-- Only factors that differ by more than the tolerance; how many did.
UPDATE shares s SET correction_factor = c.factor
  FROM unnest(:gshares::text[], :factors::float8[]) AS c (gshare, factor)
 WHERE s.gshare = c.gshare AND abs(s.correction_factor - c.factor) > :tolerance
RETURNING s.gshare;

-- name: set_user_corrections
-- Correction factors of users of shares; those that are new or differ by more than the tolerance.
INSERT INTO user_corrections AS known (gshare, user_name, correction_factor)
SELECT * FROM unnest(:gshares::text[], :user_names::text[], :factors::float8[])
ON CONFLICT (gshare, user_name)
DO UPDATE SET correction_factor = excluded.correction_factor, corrected_at = excluded.corrected_at
 WHERE abs(known.correction_factor - excluded.correction_factor) > :tolerance
RETURNING gshare, user_name;

-- name: forget_user_corrections
-- Users without jobs of the share need no correction factor.
DELETE FROM user_corrections
 WHERE (gshare, user_name) NOT IN (SELECT * FROM unnest(:gshares::text[], :user_names::text[]))
RETURNING gshare, user_name;

-- name: keep_terms
-- What corrections follow from, for people.
INSERT INTO correction_terms (gshare, user_group, user_name, vo, corrector, instance, target, factor, total, max_global,
                              terms)
SELECT * FROM unnest(:gshares::text[], :user_groups::text[], :user_names::text[], :vos::text[], :correctors::text[], :instances::text[],
                     :targets::float8[], :factors::float8[], :totals::float8[], :most::float8[], :terms::jsonb[])
ON CONFLICT DO NOTHING;

-- name: forget_terms
-- Terms that are older than anybody asks for. Index correction_terms_at.
DELETE FROM correction_terms WHERE at < orrery_now() - make_interval(secs => :older_than_s);

-- name: next_shares_version
-- The shares changed: who keeps a copy reads them again.
-- done for: OPERATORS
UPDATE versions SET version = version + 1, changed_at = orrery_now() WHERE name = 'shares' RETURNING version;

-- name: load_shares
-- Parents and children in one statement. The correction factor of a share that stays is kept.
-- done for: OPERATORS
INSERT INTO shares (gshare, value, parent, prod_source_label, working_group, campaign, processing_type, trans_path,
                    resource_type, vo, throttled, stretchable, position)
SELECT * FROM unnest(:gshares::text[], :percents::float8[], :parents::text[], :prod_source_labels::text[],
                     :working_groups::text[], :campaigns::text[], :processing_types::text[], :trans_paths::text[],
                     :resource_types::text[], :vos::text[], :throttled::boolean[], :stretchable::boolean[])
       WITH ORDINALITY
ON CONFLICT (gshare) DO UPDATE
SET value = excluded.value, parent = excluded.parent, prod_source_label = excluded.prod_source_label,
    working_group = excluded.working_group, campaign = excluded.campaign, processing_type = excluded.processing_type,
    trans_path = excluded.trans_path, resource_type = excluded.resource_type, vo = excluded.vo,
    throttled = excluded.throttled, stretchable = excluded.stretchable, position = excluded.position;

-- name: shares_in_use
-- Shares that live tasks have and that the new tree does not have, or not as leaves.
SELECT gshare, count(*) AS n_tasks FROM tasks
 WHERE gshare IS NOT NULL AND gshare <> ALL(:leaves::text[])
   AND status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
   AND EXISTS (SELECT FROM shares s WHERE s.gshare = tasks.gshare)
 GROUP BY gshare ORDER BY gshare;

-- name: tree
-- The whole tree, as it is loaded; in one order for everybody, and held until the end of the transaction.
SELECT gshare AS name, value, parent, prod_source_label AS prodsourcelabel, working_group AS workinggroup, campaign,
       processing_type AS processingtype, trans_path AS transpath, resource_type AS rtype, vo, throttled, stretchable
  FROM shares ORDER BY position FOR UPDATE;

-- name: use_of_shares
-- HS06 that each share uses now, by the benchmark of a core at each queue (the usual one at a queue without its own),
-- and its jobs that wait for pilots.
-- told by: STATES
SELECT st.gshare,
       coalesce(sum(st.n_cores * coalesce(q.core_power_hs06, :usual_hs06::float8))
                FILTER (WHERE st.status IN ('sent', 'running')), 0)::float8 AS hs06,
       greatest(coalesce(sum(st.n_jobs) FILTER (WHERE st.status = 'activated'), 0), 0)::bigint AS n_queued
  FROM queue_statistics st
  LEFT JOIN unnest(:queues::text[], :core_powers_hs06::float8[]) AS q (queue, core_power_hs06) ON q.queue = st.queue
 WHERE st.status IN ('sent', 'running', 'activated') GROUP BY st.gshare ORDER BY st.gshare;

-- name: latest_terms
-- What the latest corrections of shares follow from. Primary key, backwards.
-- told by: STATES
SELECT t.* FROM shares s
 CROSS JOIN LATERAL (
    SELECT * FROM correction_terms c WHERE c.gshare = s.gshare AND c.user_name = ''
     ORDER BY c.at DESC, c.corrector, c.instance LIMIT 1) t
 ORDER BY s.position;

-- name: terms_of_share
-- What corrections of a share follow from over time, the newest first. Primary key.
-- told by: STATES
SELECT at, vo, corrector, instance, target, factor, total, max_global, terms FROM correction_terms
 WHERE gshare = :gshare AND user_name = '' AND at > orrery_now() - make_interval(secs => :span_s)
 ORDER BY at DESC, corrector, instance LIMIT :size::int;

-- name: users_of_share
-- Users who have live jobs of a share, or whose correction is in force, with what the latest one follows from; who was
-- not corrected yet has the factor 1. A name is told to whoever may read a live task of that user.
-- told by: DETAILS
SELECT CASE WHEN :produced_vos::text[] IS NULL OR EXISTS (
           SELECT FROM tasks l
            WHERE l.user_name = u.user_name AND l.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
              AND orrery_may_read(l.user_name, l.vo, :reader::text, :own_vos::text[], :produced_vos::text[]))
       THEN u.user_name END AS user_name, coalesce(c.correction_factor, 1) AS correction_factor, c.corrected_at,
       t.target, t.total, t.max_global, t.instance, t.terms
  FROM (SELECT user_name FROM user_corrections WHERE gshare = :gshare
         UNION
        SELECT user_name FROM queue_statistics WHERE gshare = :gshare AND n_jobs > 0
           AND status NOT IN ('finished', 'failed', 'closed', 'cancelled')) u
  LEFT JOIN user_corrections c ON c.gshare = :gshare AND c.user_name = u.user_name
  LEFT JOIN LATERAL (
    SELECT * FROM correction_terms k WHERE k.gshare = c.gshare AND k.user_name = c.user_name
     ORDER BY k.at DESC LIMIT 1) t ON true
 ORDER BY 1, 2, 3 LIMIT :size::int;

-- name: forget_shares
-- Shares that the new tree does not have.
-- done for: OPERATORS
DELETE FROM shares WHERE gshare <> ALL(:gshares::text[]);

-- name: record_audit
-- Who loaded shares, for people.
INSERT INTO audit_log (caller, roles, verb, target, outcome, details)
VALUES (:caller, :roles, :verb, :target, :outcome, :details);
