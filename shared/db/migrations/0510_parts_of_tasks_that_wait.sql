-- A task waits in parts: its input, by dataset and memory; its merges, by queue; its job sets; its pre-processing job; at
-- the gate of its share; for a nucleus. Each part has what held it and is woken by itself.
ALTER TABLE waits ADD COLUMN work text NOT NULL DEFAULT 'task', ADD COLUMN part text NOT NULL DEFAULT '';
ALTER TABLE waits DROP CONSTRAINT waits_pkey, ADD PRIMARY KEY (task_id, kind, work, part);

-- Which part of its task a chunk is; without a chunk the task itself.
CREATE FUNCTION orrery_part_of_chunk(wanted bigint) RETURNS TABLE (work text, part text) LANGUAGE sql STABLE AS $$
    SELECT coalesce(CASE WHEN c.is_for_waiting THEN 'job sets' WHEN c.kind IN ('scout', 'normal') THEN 'input'
                         ELSE c.kind END, 'task'),
           CASE WHEN c.is_for_waiting OR c.kind = 'preprocess' THEN ''
                WHEN c.kind = 'merge' THEN concat_ws(' ', c.queue, c.ram_mb)
                ELSE concat_ws(' ', c.dataset_id, c.ram_mb) END
      FROM (SELECT) one LEFT JOIN chunks c ON c.chunk_id = wanted
$$;
