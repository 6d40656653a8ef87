-- Invariants of event ranges: I8. Every query returns task_id, entity, entity_id, sentence.

-- name: i8_events_merged_twice
-- Merged ranges of a file have no event in common; two rows of one range are found elsewhere.
SELECT r.task_id, 'event_range' AS entity, r.event_range_id AS entity_id,
       format('events %s to %s of file %s are merged, and so are %s to %s', r.def_min_event_id, r.def_max_event_id,
              r.file_id, other.def_min_event_id, other.def_max_event_id) AS sentence
  FROM event_ranges r
  JOIN event_ranges other
    ON other.file_id = r.file_id AND other.status = 9 AND other.event_range_id <> r.event_range_id
   AND (other.def_min_event_id, other.event_range_id) > (r.def_min_event_id, r.event_range_id)
   AND other.def_min_event_id <= r.def_max_event_id
   AND (other.def_min_event_id, other.def_max_event_id) <> (r.def_min_event_id, r.def_max_event_id)
 WHERE r.task_id = ANY(:task_ids::bigint[]) AND r.status = 9;

-- name: i8_processed_events_not_merged
-- Of a file that is finished and was merged, no processed range was left out.
SELECT r.task_id, 'event_range' AS entity, r.event_range_id AS entity_id,
       format('file %s is finished, and its events %s to %s were processed but not merged as others were', r.file_id,
              r.def_min_event_id, r.def_max_event_id) AS sentence
  FROM event_ranges r JOIN task_files f USING (file_id)
 WHERE r.task_id = ANY(:task_ids::bigint[]) AND r.status IN (3, 6) AND f.status = 'finished'
   AND EXISTS (SELECT FROM event_ranges m WHERE m.file_id = r.file_id AND m.status = 9);
