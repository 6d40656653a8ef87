-- name: keep_common_index
-- Of datasets whose files belong together by their index, the second and third field of their names, files that not all
-- of these datasets have are no units; one that was used before is lost. Files without such fields stay. Nothing of it
-- was given to a job meanwhile: the task's row is held. Indexes task_files_unit, files_dataset_id_lfn_key, older_files_pkey.
WITH marked AS MATERIALIZED (
        SELECT l.dataset_id, d.dataset_name, c.dataset_id AS catalogue_id,
               coalesce((l.request ->> 'takes_older')::boolean, false) AS takes_older
          FROM dataset_readings l JOIN task_datasets d USING (dataset_id)
          LEFT JOIN catalogue.datasets c ON c.name = d.dataset_name
         WHERE l.task_id = :task_id AND (l.request ->> 'by_index')::boolean),
     units AS MATERIALIZED (
        SELECT t.file_id, t.dataset_id, m.dataset_name, t.status,
               CASE WHEN t.lfn ~ '[.].*[.]' THEN split_part(t.lfn, '.', 2) || split_part(t.lfn, '.', 3) END AS place,
               f.file_id IS NOT NULL AND NOT f.is_corrupted AND o.file_id IS NULL AS is_listed,
               t.attempt_nr > 0 OR EXISTS (SELECT FROM job_files j WHERE j.file_id = t.file_id) AS was_used
          FROM marked m JOIN task_files t USING (dataset_id)
          LEFT JOIN catalogue.files f ON f.dataset_id = m.catalogue_id AND f.lfn = t.lfn
          LEFT JOIN catalogue.older_files o ON NOT m.takes_older AND o.file_id = f.file_id),
     common AS MATERIALIZED (
        SELECT place FROM units WHERE place IS NOT NULL AND (is_listed OR status NOT IN ('lost', 'broken'))
         GROUP BY place HAVING count(DISTINCT dataset_id) = (SELECT count(*) FROM marked)),
     judged AS MATERIALIZED (
        SELECT u.*, u.place IS NULL OR c.place IS NOT NULL AS is_common FROM units u LEFT JOIN common c USING (place)),
     gone AS (
        DELETE FROM task_files t USING judged j
         WHERE t.file_id = j.file_id AND NOT j.is_common AND NOT j.was_used AND j.is_listed
           AND t.status IN ('ready', 'lost', 'missing', 'pending', 'staging')
        RETURNING t.dataset_id, t.n_events),
     moved AS (
        UPDATE task_files t SET status = CASE WHEN j.is_common THEN 'ready' ELSE 'lost' END
          FROM judged j
         WHERE t.file_id = j.file_id AND t.status = j.status
           AND CASE WHEN j.is_common THEN j.is_listed AND j.status = 'lost' ELSE j.was_used AND j.status = 'ready' END
        RETURNING t.file_id, j.status AS was, t.status, j.dataset_name),
     sums AS (SELECT dataset_id, count(*) AS n_units, coalesce(sum(n_events), 0) AS n_events FROM gone GROUP BY dataset_id),
     counted AS (
        UPDATE task_datasets d
           SET n_files = d.n_files - coalesce(s.n_units, 0), n_events = d.n_events - coalesce(s.n_events, 0),
               n_files_to_be_used = least(d.n_files_to_be_used, d.n_files - coalesce(s.n_units, 0)),
               n_off_index = (SELECT count(*) FROM judged j WHERE j.dataset_id = d.dataset_id AND NOT j.is_common)
          FROM marked m LEFT JOIN sums s USING (dataset_id) WHERE d.dataset_id = m.dataset_id),
     noted AS (
        UPDATE dataset_readings l SET n_units = greatest(0, l.n_units - s.n_units) FROM sums s
         WHERE l.dataset_id = s.dataset_id)
SELECT file_id, was, status, dataset_name FROM moved;
