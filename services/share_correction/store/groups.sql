-- name: groups_with_task_queues
-- Groups that have task queues, what they are due, and whose these are.
SELECT q.vo, q.user_group AS name, coalesce(g.job_share, :usual_share::float8) AS job_share,
       coalesce(g.job_sharing, false) AS is_shared, array_agg(DISTINCT q.user_name ORDER BY q.user_name) AS users
  FROM task_queues q LEFT JOIN user_groups g ON g.vo = q.vo AND g.name = q.user_group
 WHERE q.empty_since IS NULL GROUP BY 1, 2, 3, 4 ORDER BY 1, 2;

-- name: set_group_corrections
-- Correction factors of groups and of users in them; those that are new or differ by more than the tolerance.
INSERT INTO group_corrections AS known (vo, user_group, user_name, correction_factor)
SELECT * FROM unnest(:vos::text[], :user_groups::text[], :user_names::text[], :factors::float8[])
ON CONFLICT (vo, user_group, user_name)
DO UPDATE SET correction_factor = excluded.correction_factor, corrected_at = excluded.corrected_at
 WHERE abs(known.correction_factor - excluded.correction_factor) > :tolerance
RETURNING vo, user_group, user_name;

-- name: forget_group_corrections
-- Whoever is not corrected any more.
DELETE FROM group_corrections
 WHERE (vo, user_group, user_name) NOT IN (SELECT * FROM unnest(:vos::text[], :user_groups::text[], :user_names::text[]))
RETURNING vo, user_group, user_name;
