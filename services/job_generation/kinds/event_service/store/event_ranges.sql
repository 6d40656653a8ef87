-- name: discard
-- The next ranges of a task whose last command was a retry that discards events. Index event_ranges_id.
WITH chosen AS MATERIALIZED (
        SELECT r.event_range_id, r.status FROM event_ranges r JOIN tasks t USING (task_id)
         WHERE r.task_id = :task_id AND r.event_range_id > :after AND r.status = ANY(:allowed::smallint[])
           AND t.command = 'retry' AND (t.command_details ->> 'discard_events')::boolean
         ORDER BY r.event_range_id LIMIT :size::int FOR UPDATE OF r)
UPDATE event_ranges r SET status = :to_status,
       file_not_deleted = CASE WHEN coalesce(r.zip_row_id, r.obj_store_id) IS NOT NULL THEN 'Y'
                               ELSE r.file_not_deleted END
  FROM chosen c WHERE r.task_id = :task_id AND r.event_range_id = c.event_range_id AND r.status = ANY(:allowed::smallint[])
RETURNING r.event_range_id, c.status;
