-- name: insert_sets
-- Job sets of a chunk; their counters follow their ranges.
INSERT INTO job_sets (job_set_id, task_id, chunk_id, status, kind, n_files, n_ranges, n_consumers, serials, queues)
SELECT w.job_set_id, :task_id, :chunk_id, 'open', :kind, w.n_files, w.n_ranges, :n_consumers, w.serials, :queues
  FROM unnest(:ids::bigint[], :n_files::int[], :n_ranges::int[], :serials::jsonb[])
       AS w (job_set_id, n_files, n_ranges, serials);

-- name: copies_among
-- Which of these jobs are copies of others. Index job_set_jobs_pkey, which has none of jobs without sets.
SELECT job_id, task_id FROM job_set_jobs WHERE job_id = ANY(:job_ids::bigint[]) AND role = 'clone'
 ORDER BY array_position(:job_ids::bigint[], job_id);

-- name: lock_jobs_of_sets
-- The jobs of sets before the sets. Index job_set_jobs_set.
SELECT job_id FROM jobs WHERE job_id = ANY(ARRAY(
    SELECT job_id FROM job_set_jobs WHERE job_set_id = ANY(:set_ids::bigint[]))) AND results_applied_at IS NULL
 ORDER BY job_id FOR NO KEY UPDATE;

-- name: stored_copies
-- The copies of these sets whose outputs are registered.
SELECT job_id FROM stored_copies WHERE job_set_id = ANY(:set_ids::bigint[]) ORDER BY job_id;

-- name: files_to_sets
-- Files belong to their new job sets.
UPDATE task_files f SET jobset_id = w.job_set_id
  FROM unnest(:file_ids::bigint[], :set_ids::bigint[]) AS w (file_id, job_set_id) WHERE f.file_id = w.file_id;

-- name: processed_ranges
-- Ranges of files that earlier sets processed, held until they go over to new ones. Index event_ranges_number.
SELECT file_id, job_process_id, def_min_event_id, def_max_event_id FROM event_ranges
 WHERE task_id = :task_id AND file_id = ANY(:file_ids::bigint[]) AND status = :done::smallint
 ORDER BY event_range_id FOR NO KEY UPDATE;

-- name: keep_processed
-- Ranges that earlier sets of these files processed go over to the new ones. Index event_ranges_number.
UPDATE event_ranges r SET job_set_id = w.job_set_id
  FROM unnest(:file_ids::bigint[], :set_ids::bigint[]) AS w (file_id, job_set_id)
 WHERE r.task_id = :task_id AND r.file_id = w.file_id AND r.status = :done::smallint;

-- name: move_past
-- The other ranges of earlier sets of these files. Index event_ranges_number.
WITH gone AS (DELETE FROM event_ranges r
               USING unnest(:file_ids::bigint[], :set_ids::bigint[]) AS w (file_id, job_set_id)
               WHERE r.task_id = :task_id AND r.file_id = w.file_id
                 AND r.job_set_id IS DISTINCT FROM w.job_set_id RETURNING r.*)
INSERT INTO event_ranges_past (
       event_range_id, task_id, dataset_id, file_id, status, job_id, job_process_id, def_min_event_id,
       def_max_event_id, processed_up_to_event_id, attempt_nr, obj_store_id, event_offset, is_jumbo, zip_row_id,
       file_not_deleted, error_code, path_convention, error_diag, job_set_id)
SELECT event_range_id, task_id, dataset_id, file_id, status, job_id, job_process_id, def_min_event_id,
       def_max_event_id, processed_up_to_event_id, attempt_nr, obj_store_id, event_offset, is_jumbo, zip_row_id,
       file_not_deleted, error_code, path_convention, error_diag, job_set_id
  FROM gone;

-- name: members_of_jobs
-- The sets of jobs, and what each is there.
SELECT job_id, job_set_id, role, attempt, n_processed, sub_status FROM job_set_jobs
 WHERE job_id = ANY(:job_ids::bigint[]) ORDER BY job_id;

-- name: members_of_sets
-- The jobs of sets whose end was not counted. Index job_set_jobs_set.
SELECT m.job_id, m.job_set_id, m.role, m.attempt, m.n_processed, m.sub_status, j.status
  FROM job_set_jobs m JOIN jobs j ON j.job_id = m.job_id AND j.results_applied_at IS NULL
 WHERE m.job_set_id = ANY(:set_ids::bigint[]) ORDER BY m.job_id;

-- name: lock_sets
-- Sets after their jobs, and before their ranges, as dispatch locks them.
SELECT * FROM job_sets WHERE job_set_id = ANY(:set_ids::bigint[]) ORDER BY job_set_id FOR NO KEY UPDATE;

-- name: wanting_sets
-- Sets of a task for which a job is to be made, and that wait for no site. Index job_sets_open.
SELECT job_set_id FROM job_sets
 WHERE task_id = :task_id AND status IN ('open', 'merging') AND wants IS NOT NULL
   AND (retry_at IS NULL OR retry_at <= orrery_now()) ORDER BY job_set_id LIMIT :at_most;

-- name: change_set
-- A set's next state.
UPDATE job_sets SET status = :stage::text, wants = :wants, retry_at = NULL, n_attempts = n_attempts + :attempts,
       n_merges = n_merges + :merges, reason = :reason, ended_at = CASE WHEN :stage::text IN ('finished', 'failed') THEN orrery_now() END
 WHERE job_set_id = :job_set_id AND status IN ('open', 'merging');

-- name: end_members
-- How jobs of sets ended.
UPDATE job_set_jobs m SET sub_status = w.sub_status, n_processed = m.n_processed + w.n_processed
  FROM unnest(:job_ids::bigint[], :sub_statuses::text[], :n_processed::int[]) AS w (job_id, sub_status, n_processed)
 WHERE m.job_id = w.job_id;

-- name: input_of_set
-- The input of a set, as its first job was given it. Index job_set_jobs_set.
SELECT f.file_id, f.dataset_id, f.type, f.lfn, coalesce(f.fsize, 0) AS fsize, f.n_events, f.start_event, f.end_event,
       f.first_event, f.boundary_id, f.lumi_block_nr, f.scope, f.guid, f.checksum, f.attempt_nr, f.ram_count,
       NULL::bigint AS job_id, f.out_job_id, f.avoided_site, jf.is_master
  FROM job_files jf JOIN task_files f USING (file_id)
 WHERE jf.job_id = (SELECT min(m.job_id) FROM job_set_jobs m WHERE m.job_set_id = :job_set_id AND m.role = 'consumer')
   AND jf.type <> 'random_seed'
 ORDER BY f.file_id;

-- name: own_input
-- The input of a set belongs to another of its jobs, or to none for now. Index task_files_set.
UPDATE task_files SET job_id = :job_id WHERE jobset_id = :job_set_id AND status = 'running';

-- name: best_queue
-- Where most events of a set were processed, by its own jobs or by jumbo jobs. Indexes job_set_jobs_set,
-- event_ranges_set.
SELECT queue, resource_type FROM (
       SELECT j.queue, j.resource_type, m.n_processed, m.job_id FROM job_set_jobs m JOIN jobs j USING (job_id)
        WHERE m.job_set_id = :job_set_id AND m.role = 'consumer' AND j.queue IS NOT NULL
       UNION ALL
       SELECT j.queue, j.resource_type, count(*), j.job_id
         FROM event_ranges r JOIN jumbo_jobs u USING (job_id) JOIN jobs j USING (job_id)
        WHERE r.task_id = :task_id AND r.job_set_id = :job_set_id AND r.status = 6 GROUP BY j.job_id) processed
 ORDER BY n_processed DESC, job_id LIMIT 1;

-- name: end_live
-- Jobs of sets that are needed no more, or ended otherwise than by their pilots. The end time that a pilot's report set
-- stays: the wait for the merge used no core. This transaction may have begun before the last change of the job: the end
-- is not before it. The lock comes first: who changes a job at this moment changes the state that it ends from, which
-- the statistics of queues count.
WITH before AS MATERIALIZED (
    SELECT job_id, status AS was FROM jobs WHERE job_id = ANY(:job_ids::bigint[]) AND status = ANY(:allowed::text[])
     ORDER BY job_id FOR NO KEY UPDATE)
UPDATE jobs j SET status = :to_status::text, state_change_time = orrery_now(),
       end_time = coalesce(j.end_time, greatest(orrery_now(), j.state_change_time)),
       error_source = coalesce(j.error_source, :error_source), error_code = coalesce(j.error_code, :error_code::int),
       error_dialog = coalesce(:error_dialog, j.error_dialog),
       deadline_at = orrery_deadline(d.after_change, d.after_creation, j.creation_time)
  FROM before b LEFT JOIN job_deadlines d ON d.status = :to_status::text
 WHERE j.job_id = b.job_id AND j.status = ANY(:allowed::text[])
RETURNING j.job_id, j.task_id, j.chunk_id, j.job_type, j.queue, j.resource_type, j.gshare, j.user_name, j.core_count,
          j.attempt_number, b.was;

-- name: written_files
-- What the processed events of a set were written to, in order of the jobs. Index event_ranges_set.
SELECT DISTINCT z.zip_row_id, z.lfn, z.size_bytes, z.adler32, z.obj_store_id, z.path_convention, z.kind
  FROM event_ranges r JOIN event_range_files z USING (zip_row_id)
 WHERE r.task_id = :task_id AND r.job_set_id = :job_set_id AND r.status = :done::smallint ORDER BY z.zip_row_id;

-- name: named_ranges
-- The processed events of a set under the names that pilots know, in order of the events; `obj_store_id`: where the output
-- of a range is that is in no larger file. Index event_ranges_set.
SELECT format('%s-%s-%s-%s-%s', r.task_id, r.job_id, r.file_id, r.job_process_id, r.attempt_nr) AS name,
       CASE WHEN r.zip_row_id IS NULL THEN r.obj_store_id END AS obj_store_id
  FROM event_ranges r
 WHERE r.task_id = :task_id AND r.job_set_id = :job_set_id AND r.status = :done::smallint
 ORDER BY r.file_id, r.job_process_id;

-- name: stores_of_set
-- Where the processed events of a set are. Index event_ranges_set.
SELECT DISTINCT coalesce(z.obj_store_id, r.obj_store_id) AS obj_store_id
  FROM event_ranges r LEFT JOIN event_range_files z USING (zip_row_id)
 WHERE r.task_id = :task_id AND r.job_set_id = :job_set_id AND r.status = :done::smallint
 ORDER BY obj_store_id;

-- name: link_to_earlier
-- Which earlier jobs of their set new jobs continue: the last one that ended, or all that are merged.
INSERT INTO job_retry_history (task_id, old_job_id, new_job_id, relation_type, origin_job_id)
SELECT m.task_id, m.job_id, n.job_id, :relation, coalesce(h.origin_job_id, m.job_id)
  FROM unnest(:job_ids::bigint[]) AS n (job_id)
  JOIN LATERAL (SELECT job_id, task_id FROM job_set_jobs
                 WHERE job_set_id = :job_set_id AND role = 'consumer' AND sub_status IS NOT NULL
                 ORDER BY job_id DESC LIMIT :at_most) m ON m.job_id <> n.job_id
  LEFT JOIN LATERAL (SELECT origin_job_id FROM job_retry_history WHERE new_job_id = m.job_id LIMIT 1) h ON true
ON CONFLICT DO NOTHING;

-- name: has_merged
-- Whether a merge job of the set was made before. Index job_set_jobs_set.
SELECT EXISTS (SELECT FROM job_set_jobs WHERE job_set_id = :job_set_id AND role = 'merge');

-- name: unused_at
-- Queues of the jobs of a set in a role that were taken back unused since another job of that role did not end so, and
-- whether a time-out took one back that no pilot had. Indexes job_set_jobs_set, jobs_archive_job.
WITH ids AS MATERIALIZED (
    SELECT array_agg(m.job_id) AS unused FROM job_set_jobs m
     WHERE m.job_set_id = :job_set_id AND m.role = :role AND m.sub_status = 'es_unused'
       AND NOT EXISTS (SELECT FROM job_set_jobs u
                        WHERE u.job_set_id = m.job_set_id AND u.role = m.role AND u.job_id > m.job_id
                          AND u.sub_status IS DISTINCT FROM 'es_unused'))
SELECT queue, coalesce(bool_or(error_source = 'watchdog' AND error_code = ANY(:timeouts::int[]) AND worker IS NULL), false)
       AS in_vain
  FROM (SELECT j.queue, j.error_source, j.error_code, j.worker FROM ids JOIN jobs j ON j.job_id = ANY(ids.unused)
         UNION ALL
        SELECT a.queue, a.error_source, a.error_code, a.worker FROM ids CROSS JOIN LATERAL archived_jobs(ids.unused) a) ended
 WHERE queue IS NOT NULL GROUP BY queue;

-- name: last_job
-- The last job of a set. Index job_set_jobs_set.
SELECT max(job_id) FROM job_set_jobs WHERE job_set_id = :job_set_id;

-- name: share_exists
-- Whether there is such a share.
SELECT EXISTS (SELECT FROM shares WHERE gshare = :gshare);
