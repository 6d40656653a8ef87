-- Tasks that wait, with what held them: one row for each task, written by who told it to wait. Whoever sees that what
-- held it has changed wakes it by compare-and-set on `wake_nr` and `woken_at`.
CREATE TABLE waits (
    task_id bigint PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('queue', 'nucleus', 'share')),   -- what it found none of, or is held by
    decision_id bigint,                          -- a row of brokerage_decisions
    chunk_id bigint,
    n_jobs int NOT NULL DEFAULT 1,               -- that its next chunk will probably become
    causes jsonb NOT NULL,                       -- packed: what has to happen
    world_version bigint NOT NULL DEFAULT 0,     -- of the grid it was decided on
    config_version bigint NOT NULL DEFAULT 0,    -- of the runtime parameters
    since timestamptz NOT NULL DEFAULT orrery_now(),
    decided_at timestamptz NOT NULL DEFAULT orrery_now(),
    retry_at timestamptz NOT NULL,               -- the longest wait
    wake_nr int NOT NULL DEFAULT 0,              -- raised with each decision
    n_futile int NOT NULL DEFAULT 0,             -- wakes in a row that placed nothing
    not_before timestamptz,                      -- the back-off after such a wake
    woken_at timestamptz,
    woken_by text,                               -- the cause
    woken_for text,                              -- the row of the queue whose room it was woken for
    room_since timestamptz,
    placed_at timestamptz,
    placed_chunk_id bigint,
    -- The transaction that changed it last: who reads by it misses none, whatever the order of commits.
    changed_by bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint
);
CREATE INDEX waits_changed ON waits (kind, changed_by);
