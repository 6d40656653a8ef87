-- name: groups
-- Groups, with how many users say that they are of each.
SELECT g.name, g.vo, g.job_share, g.job_sharing, g.allows_background,
       (SELECT count(*) FROM users u WHERE g.name = ANY(u.groups)) AS n_users
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
-- Users, one or all; of VOs those who have tasks of theirs. Index tasks_user.
SELECT user_name, groups, grid_pref, quota, priority_weight, cap_running_jobs, cap_running_cores, disk_quota_gb
  FROM users u
 WHERE (:user_name::text IS NULL OR user_name = :user_name)
   AND (:vos::text[] IS NULL
        OR EXISTS (SELECT FROM tasks t WHERE t.user_name = u.user_name AND t.vo = ANY(:vos::text[])))
 ORDER BY user_name;

-- name: put_users
-- Each in the place of the one with its name; what else is known of a user stays.
INSERT INTO users AS known (user_name, groups, grid_pref, quota, priority_weight, cap_running_jobs, cap_running_cores,
                            disk_quota_gb)
SELECT given.user_name, array_remove(string_to_array(given.groups, ','), ''), given.grid_pref, given.quota,
       given.priority_weight, given.cap_running_jobs, given.cap_running_cores, given.disk_quota_gb
  FROM unnest(:user_names::text[], :groups::text[], :grid_prefs::text[], :quotas::float8[], :priority_weights::float8[],
              :cap_jobs::int[], :cap_cores::int[], :disk_quotas_gb::float8[])
       AS given (user_name, groups, grid_pref, quota, priority_weight, cap_running_jobs, cap_running_cores,
                 disk_quota_gb)
ON CONFLICT (user_name) DO UPDATE
SET groups = excluded.groups, grid_pref = excluded.grid_pref, quota = excluded.quota,
    priority_weight = excluded.priority_weight, cap_running_jobs = excluded.cap_running_jobs,
    cap_running_cores = excluded.cap_running_cores, disk_quota_gb = excluded.disk_quota_gb;

-- name: forget_other_users
-- Users that are not of the list.
DELETE FROM users WHERE user_name <> ALL(:user_names::text[]);

-- name: forget_user
-- One user: back to what holds for everybody.
DELETE FROM users WHERE user_name = :user_name;
