-- Chunks of input, the decisions about where they go, and what waits for which cause.

-- Ids of chunks.
CREATE SEQUENCE chunk_ids;

-- Files of one task that were picked together and are brokered together; its jobs are made in one transaction.
CREATE TABLE chunks (
    chunk_id bigint PRIMARY KEY DEFAULT nextval('chunk_ids'),   -- its id
    task_id bigint NOT NULL REFERENCES tasks,  -- the task
    kind text NOT NULL CHECK (kind IN ('scout', 'normal', 'merge', 'build', 'preprocess')),   -- the kind of its jobs
    is_for_waiting boolean NOT NULL DEFAULT false,   -- for job sets that wait for co-jumbo jobs: it holds no files
    status text NOT NULL CHECK (status IN ('offered', 'used', 'returned')),   -- used: it became jobs
    dataset_id bigint,                         -- the master dataset the files were picked from
    n_files int NOT NULL,                      -- units
    n_events bigint NOT NULL DEFAULT 0,        -- events of theirs
    input_bytes bigint NOT NULL DEFAULT 0,     -- bytes of its files
    -- what it held of each dataset when it was offered: [{"dataset_id", "n_files", "n_bytes", "n_events"}]. Its files
    -- leave it when it is used or returned, and whoever asks later how it was placed still has to know
    inputs jsonb,
    -- the most files, events and bytes of one boundary, and how many boundaries it has: a boundary is one job, and
    -- queues are asked for room for the largest (groupBoundaryID 3 and 4); NULL: units may be parted
    largest_boundary jsonb,
    queue text,                                -- pre-assigned (merge jobs go where the files are)
    priority int NOT NULL DEFAULT 0,           -- of its jobs
    ram_mb bigint,                             -- memory that was raised after a failure; NULL: what the task says
    max_jobs int CHECK (max_jobs > 0),         -- jobs that the throttle of its share allows; NULL: as any chunk
    needs_key bigint,                          -- what the task asked of a queue: another number once that was changed
    seed bigint,                               -- of the draws when it became jobs: the same makes the same jobs
    created_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it was picked
    offered_at timestamptz NOT NULL DEFAULT orrery_now(),   -- last time it was offered
    ended_at timestamptz,                      -- when it was used or returned
    retry_at timestamptz,                      -- no queue took its raised memory: its units are not tried before
    n_jobs int NOT NULL DEFAULT 0,             -- jobs that it became
    reason text                                -- why it was returned
);
CREATE INDEX chunks_open ON chunks (offered_at) WHERE status = 'offered';
CREATE INDEX chunks_ended ON chunks (ended_at) WHERE status <> 'offered';
CREATE INDEX chunks_task ON chunks (task_id, status);
CREATE INDEX chunks_latest ON chunks (task_id, chunk_id DESC);
CREATE INDEX chunks_held ON chunks (task_id, retry_at) WHERE retry_at IS NOT NULL;

-- Ids of decisions.
CREATE SEQUENCE decision_ids;

-- The result of a brokerage, with a reason for every queue or nucleus left out.
CREATE TABLE brokerage_decisions (
    decision_id bigint PRIMARY KEY DEFAULT nextval('decision_ids'),   -- its id
    kind text NOT NULL CHECK (kind IN ('task', 'job')),   -- a nucleus for a task, or queues for a chunk
    task_id bigint NOT NULL,                   -- the task
    chunk_id bigint,                           -- the chunk
    decided_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when
    plugin text NOT NULL,                      -- by which policy
    seed bigint NOT NULL,                      -- of the draws
    world_version bigint NOT NULL,             -- of the grid it was decided on
    outcome text NOT NULL CHECK (outcome IN ('chosen', 'none')),   -- whether any was left
    chosen text[] NOT NULL DEFAULT '{}',       -- best first
    retry_at timestamptz,                      -- when it is tried again
    summary jsonb NOT NULL,                    -- counts per check and tier, nearest miss
    names text[] NOT NULL,                     -- queues (QUEUE/TYPE) or nuclei, one place each in the arrays below
    codes smallint[] NOT NULL,                 -- 0 passed, else the number of the check that excluded it
    found double precision[] NOT NULL,         -- the number found
    wanted double precision[] NOT NULL,        -- the number it was compared with
    weights double precision[] NOT NULL,       -- 0 where excluded
    terms jsonb NOT NULL DEFAULT '{}',         -- term name -> array of factors
    checks jsonb NOT NULL                      -- code -> check, tier, persistent, unit
);
CREATE INDEX brokerage_decisions_task ON brokerage_decisions (task_id, decision_id DESC);
CREATE INDEX brokerage_decisions_old ON brokerage_decisions (decided_at);

-- What waits, with what held it, written by who told it to wait. A task waits in parts: its input, by dataset and
-- memory; its merges, by queue; its job sets; its pre-processing job; at the gate of its share; for a nucleus. Whoever
-- sees that what held a part has changed wakes it by compare-and-set on `wake_nr` and `woken_at`.
CREATE TABLE waits (
    task_id bigint NOT NULL,                   -- the task
    kind text NOT NULL CHECK (kind IN ('queue', 'nucleus', 'share')),   -- what it found none of, or is held by
    work text NOT NULL DEFAULT 'task',         -- which part of the task: input, merge, job sets, preprocess, or task
    part text NOT NULL DEFAULT '',             -- which of several such parts
    decision_id bigint,                        -- a row of brokerage_decisions
    chunk_id bigint,                           -- the chunk that found no queue
    n_jobs int NOT NULL DEFAULT 1,             -- that its next chunk will probably become
    causes jsonb NOT NULL,                     -- packed: what has to happen
    world_version bigint NOT NULL DEFAULT 0,   -- of the grid it was decided on
    config_version bigint NOT NULL DEFAULT 0,  -- of the runtime parameters
    since timestamptz NOT NULL DEFAULT orrery_now(),        -- when it began to wait
    decided_at timestamptz NOT NULL DEFAULT orrery_now(),   -- of the last decision
    retry_at timestamptz NOT NULL,             -- the longest wait
    wake_nr int NOT NULL DEFAULT 0,            -- raised with each decision
    n_futile int NOT NULL DEFAULT 0,           -- wakes in a row that placed nothing
    not_before timestamptz,                    -- the back-off after such a wake
    woken_at timestamptz,                      -- when it was woken
    woken_by text,                             -- the cause
    woken_for text,                            -- the row of the queue whose room it was woken for
    room_since timestamptz,                    -- since when that queue has had room
    placed_at timestamptz,                     -- when it found what it waited for
    placed_chunk_id bigint,                    -- the chunk that was placed
    -- the transaction that changed it last: who reads by it misses none, whatever the order of commits
    changed_by bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    PRIMARY KEY (task_id, kind, work, part)
);
CREATE INDEX waits_changed ON waits (kind, changed_by);

-- Which part of its task a chunk is; without a chunk the task itself.
CREATE FUNCTION orrery_part_of_chunk(wanted bigint) RETURNS TABLE (work text, part text) LANGUAGE sql STABLE AS $$
    SELECT coalesce(CASE WHEN c.is_for_waiting THEN 'job sets' WHEN c.kind IN ('scout', 'normal') THEN 'input'
                         ELSE c.kind END, 'task'),
           CASE WHEN c.is_for_waiting OR c.kind = 'preprocess' THEN ''
                WHEN c.kind = 'merge' THEN concat_ws(' ', c.queue, c.ram_mb)
                ELSE concat_ws(' ', c.dataset_id, c.ram_mb) END
      FROM (SELECT) one LEFT JOIN chunks c ON c.chunk_id = wanted
$$;

-- RW, the work that nuclei still have, kept by task_brokerage: of each task.
CREATE TABLE task_remaining_work (
    task_id bigint PRIMARY KEY,                -- the task
    nucleus text NOT NULL,                     -- its nucleus
    priority int NOT NULL,                     -- its priority
    hs06_s double precision NOT NULL           -- what is left of it
) WITH (fillfactor = 70);

-- RW summed by nucleus and priority.
CREATE TABLE nucleus_remaining_work (
    nucleus text NOT NULL,                     -- the nucleus
    priority int NOT NULL,                     -- the priority
    hs06_s double precision NOT NULL,          -- what is left of its tasks of this priority
    PRIMARY KEY (nucleus, priority)
) WITH (fillfactor = 50);
