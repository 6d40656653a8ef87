-- Invariants of outputs: I14. Every query returns task_id, entity, entity_id, sentence.

-- name: i14_finished_output_not_in_catalogue
-- A finished output is in the catalogue, with the size and checksum that the contents have. When its task ends, a log of
-- which no storage has a copy is taken out. A transient dataset is deleted when nobody needs it any more.
SELECT f.task_id, 'file' AS entity, f.file_id AS entity_id,
       format('output %s of dataset %s is finished with %s bytes and checksum %s; the catalogue has %s', f.lfn,
              d.dataset_name, coalesce(f.fsize::text, 'unknown'), coalesce(f.checksum, '(none)'),
              CASE WHEN c.file_id IS NULL THEN 'no such file'
                   ELSE format('%s bytes, checksum %s', c.size_bytes, coalesce(c.checksum, '(none)')) END) AS sentence
  FROM task_datasets d
  JOIN task_files f ON f.dataset_id = d.dataset_id AND f.status = 'finished'
  LEFT JOIN catalogue.datasets known ON known.name = d.dataset_name
  LEFT JOIN LATERAL (SELECT * FROM catalogue.files one
                      WHERE one.dataset_id = known.dataset_id AND one.lfn = f.lfn LIMIT 1) c ON true
 WHERE d.task_id = ANY(:task_ids::bigint[]) AND d.type IN ('output', 'log', 'trn_output', 'trn_log')
   AND (c.file_id IS NULL OR (c.size_bytes, c.checksum) IS DISTINCT FROM (f.fsize, f.checksum))
   AND NOT (c.file_id IS NULL AND d.type = 'log' AND d.status IN ('done', 'finished', 'failed'))
   AND NOT (coalesce(known.expires_at IS NOT NULL, true) AND d.attributes ->> 'transient' = 'true');

-- name: i14_catalogue_has_unfinished_output
-- Of a task that has ended the catalogue has finished outputs only, and logs of jobs that were killed, as their reports say
-- while they are kept.
SELECT f.task_id, 'file' AS entity, f.file_id AS entity_id,
       format('the catalogue has %s in dataset %s, but the output is %s and its task %s', f.lfn, d.dataset_name,
              f.status, t.status) AS sentence
  FROM tasks t
  JOIN task_datasets d ON d.task_id = t.task_id
  JOIN task_files f ON f.dataset_id = d.dataset_id AND f.status <> 'finished'
  JOIN catalogue.datasets known ON known.name = d.dataset_name
 CROSS JOIN LATERAL (SELECT FROM catalogue.files one
                      WHERE one.dataset_id = known.dataset_id AND one.lfn = f.lfn LIMIT 1) c
 WHERE t.task_id = ANY(:task_ids::bigint[]) AND d.type IN ('output', 'log', 'trn_output', 'trn_log')
   AND t.status IN ('done', 'finished', 'failed', 'broken', 'aborted')
   AND NOT (f.status IN ('failed', 'cancelled') AND d.type IN ('log', 'trn_log')
            AND (EXISTS (SELECT FROM job_reports r WHERE r.job_id = f.out_job_id AND r.report -> 'outputs' ? f.lfn)
                 OR EXISTS (SELECT FROM archive_days_of_tasks a JOIN retention_positions p ON p.rule = 'job_reports'
                             WHERE a.task_id = t.task_id AND a.day <= (p.at AT TIME ZONE 'UTC')::date)));

-- name: i16_output_not_in_the_text
-- What a finished job wrote has a name that its text told it: no file is taken for another that the payload wrote. The
-- text is the command line, decoded where it is encoded (encJobParams), the arguments of steps around the payload and the
-- lists that the pilot writes. Lists of a specification say what is expected, not what the payload is told; a log is
-- written by the pilot, which also finds the files that match an expression (regex|...) of outFiles: theirs has a
-- template of such a name, and they have names. Names are compared as whole words: an unmerged name has the merged one
-- in it.
SELECT f.task_id, 'file' AS entity, f.file_id AS entity_id,
       format('job %s wrote output %s, which its text does not name', j.job_id, f.lfn) AS sentence
  FROM task_datasets d
  JOIN task_files f ON f.dataset_id = d.dataset_id AND f.status = 'finished'
  JOIN every_job j ON j.job_id = f.out_job_id AND j.status = 'finished'
  JOIN job_specs s ON s.job_id = j.job_id
 CROSS JOIN LATERAL (SELECT s.spec::jsonb AS body) given
 CROSS JOIN LATERAL (
       SELECT concat_ws(' ', body ->> 'jobPars', body ->> 'writeToFile', body -> 'preprocess' ->> 'args',
                        body -> 'postprocess' ->> 'args', body -> 'coprocess' ->> 'args',
                        CASE WHEN body ->> 'jobPars' ~ '^[A-Za-z0-9+/]{8,}={0,2}$'
                                  AND length(body ->> 'jobPars') % 4 = 0
                             THEN encode(decode(body ->> 'jobPars', 'base64'), 'escape') END) AS text) told
 WHERE d.task_id = ANY(:task_ids::bigint[]) AND d.type IN ('output', 'log', 'trn_output', 'trn_log')
   AND d.type NOT LIKE '%log'
   AND (strpos(told.text, f.lfn) = 0
        OR f.lfn <> ALL (regexp_split_to_array(told.text, '(?:[\s''"=,;:{}\[\]()@^]|%[0-9A-Fa-f]{2})+')))
   AND (f.lfn LIKE 'regex|%' OR NOT EXISTS (
        SELECT FROM output_templates o
         WHERE o.dataset_id IN (d.dataset_id, d.template_id) AND o.file_name_template LIKE 'regex|%'
           AND body ->> 'outFiles' LIKE '%regex|%'));
