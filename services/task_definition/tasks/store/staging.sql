-- name: to_stage
-- Input of a task that is to be staged and not asked for, with the tape that has most of it, if one is known. Indexes
-- task_datasets_task, task_files_state.
SELECT d.dataset_id, d.dataset_name, n.n_files, n.n_bytes, tape.storage
  FROM task_datasets d
  CROSS JOIN LATERAL (
       SELECT count(*)::int AS n_files, coalesce(sum(f.fsize), 0)::bigint AS n_bytes
         FROM (SELECT DISTINCT lfn, fsize FROM task_files WHERE dataset_id = d.dataset_id AND status = 'staging') f) n
  LEFT JOIN LATERAL (
       SELECT r.storage FROM catalogue.dataset_replicas r JOIN catalogue.datasets k USING (dataset_id)
        WHERE k.name = d.dataset_name AND r.storage = ANY(:tapes::text[])
        ORDER BY r.complete DESC, r.n_files DESC, r.storage LIMIT 1) tape ON true
 WHERE d.task_id = :task_id AND d.type = 'input' AND n.n_files > 0
   AND NOT EXISTS (SELECT FROM stage_ins s WHERE s.task_id = d.task_id AND s.dataset_id = d.dataset_id
                      AND s.status IN ('requested', 'active'))
 ORDER BY d.dataset_id;

-- name: ask
-- A dataset is wanted on disk.
INSERT INTO stage_ins (task_id, vo, user_name, dataset_id, dataset_name, source_storage, destination_storage, n_files,
                       n_bytes, waits_for)
VALUES (:task_id, :vo, :user_name, :dataset_id, :dataset_name, :source, :destination, :n_files, :n_bytes, :waits_for);

-- name: tape_of
-- The tape that has most of a dataset.
SELECT r.storage FROM catalogue.dataset_replicas r JOIN catalogue.datasets k USING (dataset_id)
 WHERE k.name = :dataset_name AND r.storage = ANY(:tapes::text[])
 ORDER BY r.complete DESC, r.n_files DESC, r.storage LIMIT 1;

-- name: place_stage_in
-- From where to where it goes, or what it waits for; a row that would not change is not written.
UPDATE stage_ins SET source_storage = :source, destination_storage = :destination, waits_for = :waits_for
 WHERE stage_in_id = :stage_in_id AND status = 'requested'
   AND (source_storage, destination_storage, waits_for) IS DISTINCT FROM (:source::text, :destination::text, :waits_for::text);

-- name: break_on_resume
-- It is not brought, which its task is told when it is resumed.
UPDATE stage_ins SET error = :error
 WHERE stage_in_id = :stage_in_id AND status IN ('requested', 'active')
   AND EXISTS (SELECT FROM tasks t
                WHERE t.task_id = stage_ins.task_id AND t.status = 'paused' AND t.old_status = 'staging')
RETURNING stage_in_id;

-- name: open_request_of
-- The request of a stage-in to a catalogue outside that is not done, which is dropped, with the rule that it made.
UPDATE catalogue_requests
   SET status = 'failed', reason = :error, done_at = orrery_now(), claim = claim + 1
 WHERE task_id = :task_id AND kind = 'stage' AND status IN ('open', 'moving')
   AND (details ->> 'stage_in_id')::bigint = :stage_in_id
RETURNING vo, task_id, rule_id;

-- name: forget_stage_ins
-- What ended long ago.
DELETE FROM stage_ins WHERE ended_at < orrery_now() - make_interval(secs => :older_than_s::float8);

-- name: open_stage_ins
-- What is wanted and not there, the oldest first, with the state of its task. Index stage_ins_open.
SELECT s.*, t.status AS task_status, s.requested_at < orrery_now() - make_interval(secs => :given_up_s::float8) AS is_over,
       CASE WHEN s.due_at IS NULL THEN 0
            ELSE extract(epoch FROM orrery_now() - s.started_at) / greatest(1e-9, extract(epoch FROM s.due_at - s.started_at))
       END::float8 AS part
  FROM stage_ins s JOIN tasks t USING (task_id)
 WHERE s.status IN ('requested', 'active') ORDER BY s.stage_in_id FOR UPDATE OF s SKIP LOCKED;

-- name: begin_stage_in
-- It is being staged; NULL: the catalogue outside says when it is there.
UPDATE stage_ins
   SET status = 'active', waits_for = NULL, started_at = orrery_now(), due_at = orrery_now() + make_interval(secs => :duration_s::float8)
 WHERE stage_in_id = :stage_in_id AND status = 'requested';

-- name: files_to_stage
-- The next files of a stage-in that are not where they go, by name.
SELECT DISTINCT s.dataset_name, f.lfn FROM stage_ins s
  JOIN catalogue.datasets k ON k.name = s.dataset_name
  JOIN task_files f ON f.dataset_id = s.dataset_id AND f.status = 'staging'
  JOIN catalogue.files c ON c.dataset_id = k.dataset_id AND c.lfn = f.lfn
 WHERE s.stage_in_id = :stage_in_id
   AND NOT EXISTS (SELECT FROM catalogue.file_replicas r
                    WHERE r.file_id = c.file_id AND r.storage = s.destination_storage)
 ORDER BY f.lfn LIMIT :n_files::int;

-- name: note_staged
-- How much of it is on disk.
UPDATE stage_ins SET n_staged = :n_staged WHERE stage_in_id = :stage_in_id;

-- name: end_stage_in
-- It is on disk, or is not brought there, and why.
UPDATE stage_ins SET status = :status, error = :error, waits_for = NULL, ended_at = orrery_now()
 WHERE stage_in_id = :stage_in_id AND status IN ('requested', 'active') RETURNING task_id, dataset_id;

-- name: give_up_units
-- Units of input that are not staged any more: what is there is worked on, and the others are missing.
UPDATE task_files SET status = 'missing' WHERE dataset_id = :dataset_id AND status = 'staging' RETURNING file_id;
