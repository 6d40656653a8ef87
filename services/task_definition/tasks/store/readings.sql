-- name: begin_reading
-- Input of a task is to be read; what was being read of it is read anew. Index input_readings_pkey.
INSERT INTO input_readings AS r (task_id, is_read) VALUES (:task_id, false)
ON CONFLICT (task_id) DO UPDATE SET is_read = false, slice_at = orrery_now();

-- name: read_dataset
-- A dataset joins the reading of its task, or begins again there. Its version is that of before the first look.
INSERT INTO dataset_readings (dataset_id, task_id, position, stage, request, contents_version)
SELECT :dataset_id, :task_id, :position, :stage, :request::jsonb,
       (SELECT c.contents_version FROM catalogue.datasets c JOIN task_datasets d ON d.dataset_id = :dataset_id
         WHERE c.name = :name AND catalogue.may_be_read(c, d.vo))
ON CONFLICT (dataset_id) DO UPDATE SET position = excluded.position, stage = excluded.stage, request = excluded.request,
       after_lfn = '', after_block = NULL, after_file = 0, contents_version = excluded.contents_version, n_units = 0,
       n_files = 0, n_events = NULL, n_older = NULL, n_not_made = NULL, n_skipped = 0, n_changed = 0,
       has_new = false, has_owned = false, too_many = NULL;

-- name: next_reading
-- The task whose input waited longest for its next slice, held by one reader; never the row of the task itself.
-- Of a task that was ended nothing more is read.
SELECT r.task_id FROM input_readings r
 WHERE (:task_id::bigint IS NULL OR r.task_id = :task_id::bigint) AND NOT r.is_read
   AND NOT EXISTS (SELECT FROM tasks t WHERE t.task_id = r.task_id AND t.status IN ('aborting', 'toabort', 'aborted'))
 ORDER BY r.slice_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;

-- name: read_readings
-- Tasks whose input was read, and whose definition has not gone on yet.
SELECT task_id FROM input_readings WHERE is_read ORDER BY slice_at LIMIT :at_most::int;

-- name: dropped_readings
-- Of tasks that ended nothing more is read. One that was aborted may be tried again: the row says that there is more.
DELETE FROM input_readings r USING tasks t
 WHERE t.task_id = r.task_id AND t.status IN ('done', 'finished', 'failed', 'broken', 'aborted')
   AND (t.status <> 'aborted' OR r.is_read)
   AND r.slice_at < orrery_now() - interval '10 seconds';

-- name: datasets_to_read
-- What is still to be read of a task, in order. A dataset that was closed to its VO is nowhere any more. Index dataset_readings_next.
SELECT l.dataset_id, d.dataset_name, l.stage, l.request, l.after_lfn, l.after_block, l.after_file, l.has_new, l.n_skipped,
       c.dataset_id AS catalogue_id
  FROM dataset_readings l JOIN task_datasets d USING (dataset_id) LEFT JOIN catalogue.datasets c
    ON c.name = d.dataset_name AND catalogue.may_be_read(c, d.vo)
 WHERE l.task_id = :task_id AND l.stage <> 'read' ORDER BY l.position LIMIT :at_most::int;

-- name: state_of_reading
-- Whether all input of a task is read.
SELECT is_read FROM input_readings WHERE task_id = :task_id;

-- name: read_so_far
-- What this reading added: of the masters together, and of one dataset.
SELECT coalesce(sum(l.n_files) FILTER (WHERE m.is_master), 0)::bigint AS files_of_masters,
       coalesce(sum(l.n_events) FILTER (WHERE m.is_master), 0)::bigint AS events_of_masters,
       coalesce(sum(l.n_units) FILTER (WHERE m.is_master), 0)::bigint AS units_of_masters,
       coalesce(sum(l.n_files) FILTER (WHERE l.dataset_id = :dataset_id), 0)::bigint AS n_files,
       (SELECT coalesce(sum(d.n_files), 0)::bigint FROM task_datasets d
         WHERE d.task_id = :task_id AND d.type = 'input' AND d.master_id IS NULL) AS units_of_task
  FROM dataset_readings l CROSS JOIN LATERAL (SELECT (l.request ->> 'is_master')::boolean AS is_master) m
 WHERE l.task_id = :task_id;

-- name: readings_of_task
-- How the reading of each dataset of a task went, and what the dataset has now. One that changed behind the reader counts
-- as open, though it was closed meanwhile: it is read again before its task can end.
SELECT l.dataset_id, l.request, l.n_units, l.n_changed, l.too_many, coalesce(l.n_older, d.n_older, 0) AS n_older,
       coalesce(d.n_off_index, 0) AS n_off_index, coalesce(l.n_not_made, d.n_not_made, 0) AS n_not_made, d.n_files AS units_of_dataset, d.n_files_to_be_used,
       greatest(0, d.n_files - d.n_files_used) AS n_untaken,
       CASE WHEN c.contents_version IS DISTINCT FROM l.contents_version AND c.state = 'frozen' THEN 'open' ELSE c.state
       END AS state
  FROM dataset_readings l JOIN task_datasets d USING (dataset_id) LEFT JOIN catalogue.datasets c
    ON c.name = d.dataset_name AND catalogue.may_be_read(c, d.vo)
 WHERE l.task_id = :task_id AND l.request ->> 'numbered' IS NULL ORDER BY l.position;

-- name: names_not_there
-- Of the files that were named, those that the catalogue does not have, or has newer attempts of. Index older_files_pkey.
SELECT coalesce(array_agg(w.lfn ORDER BY w.lfn), '{}') FROM unnest(:names::text[]) AS w (lfn)
 WHERE NOT EXISTS (SELECT FROM task_datasets d JOIN catalogue.datasets c ON c.name = d.dataset_name
                     JOIN catalogue.files f ON f.dataset_id = c.dataset_id
                    WHERE d.dataset_id = :dataset_id AND f.lfn = w.lfn
                      AND (:takes_older::boolean OR NOT EXISTS (
                           SELECT FROM catalogue.older_files o WHERE o.file_id = f.file_id)));

-- name: note_loaded
-- How far a dataset is loaded, and what was added.
UPDATE dataset_readings
   SET after_block = :after_block, after_file = :after_file, n_units = n_units + :n_units, n_files = n_files + :n_files,
       n_events = CASE WHEN :n_events::bigint IS NULL THEN n_events ELSE coalesce(n_events, 0) + :n_events END,
       n_older = coalesce(n_older, 0) + :n_older, n_not_made = coalesce(n_not_made, 0) + :n_not_made,
       n_skipped = n_skipped + :n_skipped, stage = :stage
 WHERE dataset_id = :dataset_id;

-- name: note_compared
-- How far a dataset is compared.
UPDATE dataset_readings
   SET after_lfn = :after_lfn, n_changed = n_changed + :n_changed, stage = :stage, has_new = has_new OR :has_new,
       has_owned = has_owned OR :has_owned
 WHERE dataset_id = :dataset_id;

-- name: note_slice
-- A slice of a task's input was read.
UPDATE input_readings SET slice_at = orrery_now(), is_read = :is_read WHERE task_id = :task_id;

-- name: end_reading
-- The definition of the task goes on with what was read.
DELETE FROM input_readings WHERE task_id = :task_id;

-- name: count_loaded
-- The units that a slice added are counted with it.
UPDATE task_datasets
   SET n_files = n_files + :n_units,
       n_events = CASE WHEN :n_events::bigint IS NULL THEN n_events ELSE coalesce(n_events, 0) + :n_events END
 WHERE dataset_id = :dataset_id;

-- name: used_by_masters
-- Distinct files (if a limit counts them) and events among the units of a task's masters.
SELECT coalesce(sum(CASE WHEN :counts_files::boolean AND d.n_files > 0 THEN (
                         SELECT count(DISTINCT f.lfn) FROM task_files f WHERE f.dataset_id = d.dataset_id) END), 0)::bigint
           AS n_files,
       coalesce(sum(d.n_events), 0)::bigint AS n_events
  FROM task_datasets d
 WHERE d.task_id = :task_id AND d.type = 'input' AND d.master_id IS NULL;

-- name: where_copies_are
-- The storages that have a dataset, wholly or in part.
SELECT storage, complete FROM catalogue.dataset_replicas WHERE dataset_id = :catalogue_id ORDER BY storage;

-- name: note_too_many
-- Nothing more is read of a task that would have more units than it may.
UPDATE dataset_readings
   SET stage = 'read', too_many = CASE WHEN dataset_id = :dataset_id THEN :too_many ELSE too_many END
 WHERE task_id = :task_id;

-- name: load_whole_files
-- The next files of a dataset of which the task has none yet and wants all, one unit for each: of attempts of one file
-- the newest (takes_older: all), whose running event numbers follow each other. At most max_files are added.
-- Indexes files_in_order, older_files_pkey.
WITH listed AS MATERIALIZED (
        SELECT f.file_id, f.lfn, f.guid, f.size_bytes, f.checksum, f.scope, f.is_corrupted, f.lumi_block,
               coalesce(:events_per_file::bigint, f.n_events) AS n_events,
               NOT :takes_older::boolean
               AND (SELECT EXISTS (SELECT FROM catalogue.older_files WHERE dataset_id = :catalogue_id))
               AND EXISTS (SELECT FROM catalogue.older_files o WHERE o.file_id = f.file_id) AS is_older
          FROM catalogue.files f WHERE f.dataset_id = :catalogue_id AND f.file_id > :after_file::bigint
         ORDER BY f.file_id LIMIT :size::int),
     wanted AS NOT MATERIALIZED (
        SELECT * FROM listed WHERE NOT is_older ORDER BY file_id LIMIT :max_files::bigint),
     added AS (
        INSERT INTO task_files (dataset_id, task_id, lfn, guid, type, fsize, checksum, scope, status, max_attempt,
                                max_failure, n_events, first_event, lumi_block_nr)
        SELECT :dataset_id, :task_id, lfn, guid, 'input', size_bytes, checksum, scope,
               CASE WHEN is_corrupted THEN 'broken' ELSE :here::text END, :max_attempt, :max_failure, n_events,
               CASE WHEN :counts_in_file::boolean THEN 1
                    ELSE :first_event::bigint - coalesce(n_events, 0)
                         + sum(coalesce(n_events, 0)) OVER (ORDER BY file_id ROWS UNBOUNDED PRECEDING) END,
               lumi_block
          FROM wanted ORDER BY file_id)
SELECT l.n_listed, l.after_file, l.n_older, w.n_units, w.n_events
  FROM (SELECT count(*) AS n_listed, max(file_id) AS after_file, count(*) FILTER (WHERE is_older) AS n_older
          FROM listed) l,
       (SELECT count(*) AS n_units, sum(n_events)::bigint AS n_events FROM wanted) w;

-- name: load_slice
-- The next files of a dataset as units, one row for each, or cut into ranges of events_per_unit; events count from 0
-- inside a file. Window sums give the running event number and cut at the limits. Indexes files_in_order, files_by_block,
-- older_files_pkey.
-- A file without events has nothing to cut, or to hand out in ranges (needs_events): its one row is broken, and nobody
-- waits for it.
-- Files that were named with boundaries come in that order.
-- Of files whose names differ in their last number only, attempts of one file, the newest is taken (takes_older: all).
-- The first files that pass the filters are left out (left_to_skip), whatever the task has of the others.
-- A file that is cut into many units ends the slice (most_units); nothing is added while one makes too many
-- (most_units_of_file).
-- Whole jobs first (aligned_to): files whose events fill jobs of so many, then the others, those with most events first.
WITH plain AS (
        SELECT f.*, NULL::bigint AS place FROM catalogue.files f
         WHERE f.dataset_id = :catalogue_id AND NOT :by_lumi_block::boolean AND :aligned_to::bigint IS NULL
           AND :boundaries::bigint[] IS NULL
           AND f.file_id > :after_file::bigint
         ORDER BY f.file_id LIMIT :size::int),
     aligned AS (
        SELECT * FROM (
            SELECT f.*, CASE WHEN f.n_events % :aligned_to::bigint = 0 THEN 0
                             ELSE 1000000000000000 - coalesce(f.n_events, 0) END AS place
              FROM catalogue.files f WHERE f.dataset_id = :catalogue_id AND :aligned_to::bigint IS NOT NULL) f
         WHERE :after_block::bigint IS NULL OR (place, file_id) > (:after_block::bigint, :after_file::bigint)
         ORDER BY place, file_id LIMIT :size::int),
     in_named_order AS (
        SELECT f.*, n.place FROM unnest(:names::text[]) WITH ORDINALITY AS n (lfn, place)
          JOIN catalogue.files f ON f.dataset_id = :catalogue_id AND f.lfn = n.lfn
         WHERE :boundaries::bigint[] IS NOT NULL AND (:after_block::bigint IS NULL OR n.place > :after_block::bigint)
         ORDER BY n.place LIMIT :size::int),
     without_block AS (
        SELECT f.*, NULL::bigint AS place FROM catalogue.files f
         WHERE f.dataset_id = :catalogue_id AND :by_lumi_block::boolean AND :after_block::bigint IS NULL
           AND f.lumi_block IS NULL AND f.file_id > :after_file::bigint
         ORDER BY f.file_id LIMIT :size::int),
     by_block AS (
        SELECT f.*, f.lumi_block::bigint AS place FROM catalogue.files f
         WHERE f.dataset_id = :catalogue_id AND :by_lumi_block::boolean AND f.lumi_block IS NOT NULL
           AND (:after_block::bigint IS NULL OR (f.lumi_block, f.file_id) > (:after_block::bigint, :after_file::bigint))
         ORDER BY f.lumi_block, f.file_id LIMIT :size::int),
     next_files AS MATERIALIZED (
        SELECT * FROM (SELECT * FROM plain UNION ALL SELECT * FROM aligned UNION ALL SELECT * FROM without_block
                       UNION ALL SELECT * FROM by_block UNION ALL SELECT * FROM in_named_order) every
         ORDER BY place NULLS FIRST, file_id LIMIT :size::int),
     listed AS MATERIALIZED (
        SELECT * FROM (
            SELECT n.*, coalesce(sum(c.n_cut) OVER (ORDER BY n.place NULLS FIRST, n.file_id
                                                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS cut_before
              FROM next_files n CROSS JOIN LATERAL (
                   SELECT coalesce(coalesce(:events_per_file::bigint, n.n_events) / :events_per_unit::bigint, 0) + 1
                          AS n_cut) c) n
         WHERE :events_per_unit::bigint IS NULL OR n.cut_before < :most_units::bigint),
     counted AS (
        SELECT f.*, CASE WHEN :skip_short_of::bigint IS NULL OR f.n_events IS NULL
                         THEN coalesce(:events_per_file::bigint, f.n_events)
                         WHEN f.n_events >= coalesce(:events_per_file::bigint, f.n_events + 1)
                         THEN :events_per_file::bigint
                         ELSE f.n_events / :skip_short_of::bigint * :skip_short_of::bigint END AS events
          FROM listed f),
     attempts AS MATERIALIZED (
        SELECT f.*, o.is_older, :made_by::bigint IS NOT NULL AND w.is_made IS NULL AS is_not_made FROM counted f
          LEFT JOIN LATERAL (SELECT true AS is_older FROM catalogue.older_files n
                              WHERE NOT :takes_older::boolean AND n.file_id = f.file_id LIMIT 1) o ON true
          LEFT JOIN LATERAL (
              SELECT true AS is_made FROM task_datasets made JOIN task_files p USING (dataset_id)
               WHERE made.task_id = :made_by::bigint AND made.dataset_name = :name AND made.type IN ('output', 'log')
                 AND p.lfn = f.lfn AND p.status = 'finished' LIMIT 1) w ON true),
     passing AS MATERIALIZED (
        SELECT f.*, k.is_known, row_number() OVER (ORDER BY f.place NULLS FIRST, f.file_id) AS passing_nth
          FROM attempts f
          -- one look into the index for each file, whatever the planner thinks of how many there are
          LEFT JOIN LATERAL (SELECT true AS is_known FROM task_files t
                              WHERE NOT :is_new::boolean AND t.dataset_id = :dataset_id AND t.lfn = f.lfn LIMIT 1) k ON true
         WHERE f.is_older IS NULL AND NOT f.is_not_made
           AND (:skip_short_of::bigint IS NULL OR f.events IS DISTINCT FROM 0) AND (:names::text[] IS NULL OR f.lfn = ANY(:names::text[]))
           AND (cardinality(:include::text[]) = 0 OR f.lfn ~ ANY(:include::text[]))
           AND NOT f.lfn ~ ANY(:exclude::text[])
           AND (cardinality(:skip_files_used_by::bigint[]) = 0 OR NOT EXISTS (
                    SELECT FROM task_files u WHERE u.lfn = f.lfn AND u.task_id = ANY(:skip_files_used_by::bigint[])
                       AND u.type = 'input' AND u.status = 'finished'))),
     chosen AS MATERIALIZED (
        SELECT f.*, row_number() OVER in_order AS nth,
               sum(coalesce(f.events, 0)) OVER in_order - coalesce(f.events, 0) AS events_before
          FROM passing f WHERE f.is_known IS NULL AND f.passing_nth > :left_to_skip::bigint
        WINDOW in_order AS (ORDER BY f.place NULLS FIRST, f.file_id ROWS UNBOUNDED PRECEDING)),
     too_large AS MATERIALIZED (
        SELECT m.n_cut FROM chosen c CROSS JOIN LATERAL (
               SELECT ceil(least(c.events, coalesce(:max_events::bigint - c.events_before, c.events))::numeric
                           / :events_per_unit::bigint)::bigint AS n_cut) m
         WHERE c.nth <= coalesce(:max_files::bigint, c.nth) AND m.n_cut > :most_units_of_file::bigint
         ORDER BY c.nth LIMIT 1),
     units AS (
        SELECT c.*, NULL::bigint AS start_event, NULL::bigint AS end_before FROM chosen c
         WHERE :events_per_unit::bigint IS NULL AND c.nth <= coalesce(:max_files::bigint, c.nth)
           AND c.events_before < coalesce(:max_events::bigint, c.events_before + 1)
        UNION ALL
        SELECT c.*, r.start_event,
               least(r.start_event + :events_per_unit::bigint, c.events,
                     coalesce(:max_events::bigint - c.events_before, c.events))
          FROM chosen c, generate_series(0, CASE WHEN EXISTS (SELECT FROM too_large) THEN -1 ELSE c.events - 1 END,
                                        :events_per_unit::bigint) AS r (start_event)
         WHERE :events_per_unit::bigint IS NOT NULL AND c.nth <= coalesce(:max_files::bigint, c.nth)
           AND c.events_before + r.start_event < coalesce(:max_events::bigint, c.events_before + r.start_event + 1)
        UNION ALL
        SELECT c.*, NULL, NULL FROM chosen c
         WHERE :events_per_unit::bigint IS NOT NULL AND coalesce(c.events, 0) <= 0
           AND c.nth <= coalesce(:max_files::bigint, c.nth)
           AND c.events_before < coalesce(:max_events::bigint, c.events_before + 1)),
     added AS (
        INSERT INTO task_files (dataset_id, task_id, lfn, guid, type, fsize, checksum, scope, status, max_attempt,
                                max_failure, n_events, start_event, end_event, first_event, boundary_id, lumi_block_nr)
        SELECT :dataset_id, :task_id, lfn, guid, 'input', size_bytes, checksum, scope,
               CASE WHEN is_corrupted OR (:events_per_unit::bigint IS NOT NULL AND start_event IS NULL)
                         OR (:needs_events::boolean AND coalesce(events, 0) <= 0) THEN 'broken'
                    WHEN :is_here::boolean OR EXISTS (
                         SELECT FROM catalogue.file_replicas r
                          WHERE r.file_id = units.file_id AND NOT r.storage = ANY(:not_at::text[])) THEN :here::text
                    ELSE :elsewhere::text END,
               :max_attempt, :max_failure, coalesce(end_before - start_event, events), start_event, end_before - 1,
               CASE WHEN :counts_in_file::boolean THEN 1 ELSE :first_event::bigint + events_before END
                   + coalesce(start_event, 0),
               CASE WHEN :respect_lumi_blocks::boolean THEN lumi_block ELSE (:boundaries::bigint[])[place] END, lumi_block
          FROM units ORDER BY nth, start_event
        RETURNING file_id, status, start_event, n_events),
     last AS (
        SELECT place, file_id FROM listed ORDER BY place DESC NULLS LAST, file_id DESC LIMIT 1)
SELECT (SELECT count(*) FROM listed) AS n_listed,
       (SELECT count(*) FROM listed) < (SELECT count(*) FROM next_files) AS is_cut, (SELECT n_cut FROM too_large) AS n_too_many, (SELECT count(is_older) FROM attempts) AS n_older,
       (SELECT count(*) FROM attempts WHERE is_older IS NULL AND is_not_made) AS n_not_made, (SELECT file_id FROM last) AS after_file,
       (SELECT place FROM last) AS after_block,
       least(:left_to_skip::bigint, (SELECT count(*) FROM passing)) AS n_skipped,
       count(*) AS n_units, count(*) FILTER (WHERE coalesce(start_event, 0) = 0) AS n_files,
       sum(n_events)::bigint AS n_events,
       coalesce(array_agg(file_id ORDER BY file_id) FILTER (
           WHERE (:events_per_unit::bigint IS NOT NULL AND start_event IS NULL)
              OR (:needs_events::boolean AND coalesce(n_events, 0) <= 0)), '{}') AS without_events FROM added;

-- name: walk_by_name
-- The planner expects few names on each side of a slice: it would sort all that are left of a dataset to find the end of
-- the slice, and compare each name with each.
SELECT set_config(name, CASE WHEN :begins::boolean THEN 'off' ELSE 'on' END, true)
  FROM unnest('{enable_nestloop,enable_sort,enable_bitmapscan}'::text[]) AS s (name);

-- name: with_events_now
-- Units that had no events when they were read, and of which the catalogue knows the events now. Index
-- task_files_state.
SELECT t.file_id FROM task_files t JOIN catalogue.files f ON f.dataset_id = :catalogue_id AND f.lfn = t.lfn
 WHERE t.dataset_id = :dataset_id AND t.status = 'broken' AND t.start_event IS NULL AND f.n_events > 0
   AND NOT f.is_corrupted
 ORDER BY t.file_id;

-- name: forget_units
-- Units that nobody used are read anew.
WITH gone AS (
        DELETE FROM task_files WHERE file_id = ANY(:file_ids::bigint[]) AND status = 'broken' RETURNING dataset_id)
UPDATE task_datasets d SET n_files = d.n_files - g.n
  FROM (SELECT dataset_id, count(*) AS n FROM gone GROUP BY dataset_id) g WHERE d.dataset_id = g.dataset_id;

-- name: compare_slice
-- Units of a dataset whose state, or what is known of them, is not what the catalogue says now; both sides in the order
-- of their names, so many of each. A unit that a job has is told too: if the job fails, it is as it was read before.
-- An older attempt of a file is not there. Indexes files_dataset_id_lfn_key, task_files_unit, older_files_pkey.
WITH bound AS MATERIALIZED (
        SELECT least((SELECT f.lfn FROM catalogue.files f
                       WHERE f.dataset_id = :catalogue_id AND f.lfn > :after_lfn::text
                       ORDER BY f.lfn LIMIT 1 OFFSET :size::int - 1),
                     (SELECT t.lfn FROM task_files t
                       WHERE t.dataset_id = :dataset_id AND t.lfn > :after_lfn::text
                       ORDER BY t.lfn LIMIT 1 OFFSET :size::int - 1)) AS last),
     upto AS MATERIALIZED (
        SELECT coalesce((SELECT last FROM bound),
                        greatest((SELECT max(f.lfn) FROM catalogue.files f WHERE f.dataset_id = :catalogue_id),
                                 (SELECT max(t.lfn) FROM task_files t WHERE t.dataset_id = :dataset_id))) AS lfn),
     listed AS MATERIALIZED (
        SELECT f.lfn, f.file_id, f.size_bytes, f.checksum, f.n_events, f.is_corrupted FROM catalogue.files f
          LEFT JOIN catalogue.older_files o ON NOT :takes_older::boolean AND o.file_id = f.file_id
          LEFT JOIN LATERAL (
              SELECT true AS is_made FROM task_datasets made JOIN task_files p USING (dataset_id)
               WHERE made.task_id = :made_by::bigint AND made.dataset_name = :name AND made.type IN ('output', 'log')
                 AND p.lfn = f.lfn AND p.status = 'finished' LIMIT 1) w ON true
         WHERE f.dataset_id = :catalogue_id AND f.lfn > :after_lfn::text AND f.lfn <= (SELECT lfn FROM upto)
           AND o.file_id IS NULL AND (:made_by::bigint IS NULL OR w.is_made)),
     held AS MATERIALIZED (
        SELECT t.lfn, t.file_id, t.status, t.fsize, t.checksum, t.n_events, t.start_event FROM task_files t
         WHERE t.dataset_id = :dataset_id AND t.lfn > :after_lfn::text AND t.lfn <= (SELECT lfn FROM upto)),
     sides AS (
        SELECT h.file_id, h.status, h.fsize, h.checksum, h.n_events, h.start_event,
               l.file_id IS NOT NULL AS is_listed, l.size_bytes AS listed_size, l.checksum AS listed_checksum,
               l.n_events AS listed_events, coalesce(l.is_corrupted, false) AS is_corrupted,
               l.file_id IS NOT NULL AND (:is_here::boolean OR EXISTS (
                   SELECT FROM catalogue.file_replicas r
                    WHERE r.file_id = l.file_id AND NOT r.storage = ANY(:not_at::text[]))) AS is_here
          FROM held h LEFT JOIN listed l ON l.lfn = h.lfn
         WHERE h.status IN ('ready', 'pending', 'staging', 'missing', 'lost', 'picked', 'running')),
     differing AS (
        SELECT * FROM sides
         WHERE CASE WHEN NOT is_listed THEN status <> 'lost'
                    WHEN is_corrupted THEN true
                    WHEN is_here OR status IN ('picked', 'running') THEN status NOT IN ('ready', 'picked', 'running', :here::text)
                         OR (fsize, checksum) IS DISTINCT FROM (listed_size, listed_checksum)
                         OR (start_event IS NULL AND :compares_events::boolean
                             AND n_events IS DISTINCT FROM listed_events)
                    ELSE status <> :elsewhere::text END)
SELECT (SELECT last FROM bound) AS last, (SELECT count(*) FROM held) AS n_held,
       EXISTS (SELECT FROM listed l LEFT JOIN held h ON h.lfn = l.lfn WHERE h.lfn IS NULL) AS has_new,
       coalesce((SELECT jsonb_agg(to_jsonb(d) ORDER BY d.file_id) FROM differing d), '[]') AS differing;

-- name: change_units
-- Units that no job has become what the catalogue says.
UPDATE task_files f SET status = n.status, fsize = coalesce(n.fsize, f.fsize), checksum = n.checksum,
       n_events = n.n_events
  FROM unnest(:ids::bigint[], :was::text[], :statuses::text[], :sizes::bigint[], :checksums::text[], :events::bigint[])
       AS n (file_id, was, status, fsize, checksum, n_events)
 WHERE f.file_id = n.file_id AND f.status = n.was
RETURNING f.file_id, n.was, f.status, f.dataset_id;

-- name: recount_events
-- The events of a dataset follow those of its units.
UPDATE task_datasets d SET n_events = (
       SELECT sum(f.n_events) FROM task_files f WHERE f.dataset_id = d.dataset_id)
 WHERE d.dataset_id = :dataset_id AND d.n_events IS NOT NULL;

-- name: try_lock_task
-- The row of a task if nobody has it just now: whoever waits for it here would make others wait.
SELECT status FROM tasks WHERE task_id = :task_id FOR NO KEY UPDATE SKIP LOCKED;

-- name: usable_units
-- Whether any unit of these datasets can be used, and how many of which other state there are. Index task_files_state.
SELECT f.status, count(*) AS n_units FROM task_files f
 WHERE f.dataset_id = ANY(:dataset_ids::bigint[]) AND f.status <> 'ready' GROUP BY f.status ORDER BY f.status;
