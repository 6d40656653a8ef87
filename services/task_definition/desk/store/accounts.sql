-- name: groups
-- Groups, with how many users say that they are of each.
-- told by: MEMBERS
SELECT g.name, g.vo, g.job_share, g.job_sharing, g.allows_background,
       (SELECT count(DISTINCT u.user_name) FROM users u
         WHERE g.name = ANY(u.groups) AND u.vo IN (g.vo, '')) AS n_users
  FROM user_groups g ORDER BY g.vo, g.name;

-- name: put_groups
-- Each in the place of the one with its VO and name.
INSERT INTO user_groups (name, vo, job_share, job_sharing, allows_background)
SELECT * FROM unnest(:names::text[], :vos::text[], :job_shares::float8[], :job_sharings::boolean[],
                     :allows_backgrounds::boolean[])
ON CONFLICT (vo, name) DO UPDATE
SET job_share = excluded.job_share, job_sharing = excluded.job_sharing,
    allows_background = excluded.allows_background;

-- name: forget_other_groups
-- Groups that are not of the list.
DELETE FROM user_groups g
 WHERE NOT EXISTS (SELECT FROM unnest(:names::text[], :vos::text[]) AS kept (name, vo)
                    WHERE kept.name = g.name AND kept.vo = g.vo);

-- name: forget_group
-- One group.
DELETE FROM user_groups WHERE name = :name AND vo = :vo;

-- name: users
-- What is said of users, of one VO or ('') of all, with the VOs that it concerns: its own; of all VOs those, of the
-- asked ones (NULL: '' alone), for which the user has submitted tasks: what others submit in a name tells nothing of the
-- person. Index tasks_user.
-- told by: MEMBERS
SELECT u.user_name, u.vo, u.groups, u.grid_pref, u.quota, u.priority_weight, u.cap_running_jobs, u.cap_running_cores,
       u.disk_quota_gb,
       CASE WHEN u.vo <> '' THEN ARRAY[u.vo] WHEN :vos::text[] IS NULL THEN ARRAY['']
            ELSE ARRAY(SELECT v.vo FROM unnest(:vos::text[]) AS v (vo)
                        WHERE EXISTS (SELECT FROM tasks t WHERE t.user_name = u.user_name AND t.vo = v.vo
                                         AND t.submitted_by = t.user_name)) END AS vos
  FROM users u ORDER BY u.user_name, u.vo;

-- name: user
-- What is said of a user for one VO, or ('') for all.
-- told by: MEMBERS
SELECT user_name, vo, groups, grid_pref, quota, priority_weight, cap_running_jobs, cap_running_cores, disk_quota_gb
  FROM users WHERE user_name = :user_name AND vo = :vo;

-- name: put_users
-- Each in the place of the one with its name and VO; what else is known of a user stays.
-- done for: OPERATORS
INSERT INTO users AS known (user_name, vo, groups, grid_pref, quota, priority_weight, cap_running_jobs,
                            cap_running_cores, disk_quota_gb)
SELECT given.user_name, given.vo, array_remove(string_to_array(given.groups, ','), ''), given.grid_pref, given.quota,
       given.priority_weight, given.cap_running_jobs, given.cap_running_cores, given.disk_quota_gb
  FROM unnest(:user_names::text[], :vos::text[], :groups::text[], :grid_prefs::text[], :quotas::float8[],
              :priority_weights::float8[], :cap_jobs::int[], :cap_cores::int[], :disk_quotas_gb::float8[])
       AS given (user_name, vo, groups, grid_pref, quota, priority_weight, cap_running_jobs, cap_running_cores,
                 disk_quota_gb)
ON CONFLICT (user_name, vo) DO UPDATE
SET groups = excluded.groups, grid_pref = excluded.grid_pref, quota = excluded.quota,
    priority_weight = excluded.priority_weight, cap_running_jobs = excluded.cap_running_jobs,
    cap_running_cores = excluded.cap_running_cores, disk_quota_gb = excluded.disk_quota_gb;

-- name: forget_other_users
-- Users that are not of the list.
-- done for: OPERATORS
DELETE FROM users u
 WHERE NOT EXISTS (SELECT FROM unnest(:user_names::text[], :vos::text[]) AS kept (user_name, vo)
                    WHERE kept.user_name = u.user_name AND kept.vo = u.vo);

-- name: forget_user
-- One user in one VO, or ('') what is said for all: back to what holds for everybody.
-- done for: OPERATORS
DELETE FROM users WHERE user_name = :user_name AND vo = :vo;
