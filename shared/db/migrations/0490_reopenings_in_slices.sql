-- Commands that open the input of a task again, while they are worked off: some thousand units in each transaction. The row
-- is there as long as there is something left to do, so that whoever lives goes on after a crash. `position`: where the
-- last slice ended.
CREATE TABLE reopenings (
    reopening_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id bigint NOT NULL,
    kind text NOT NULL CHECK (kind IN ('retry', 'read_again', 'live')),
    came_from text NOT NULL,
    verb text NOT NULL,
    details jsonb NOT NULL,
    reason text NOT NULL,
    by_production boolean NOT NULL,
    steps jsonb NOT NULL,
    position jsonb,
    last_file_id bigint NOT NULL,
    n_reopened bigint NOT NULL,
    n_left bigint NOT NULL,
    started_at timestamptz NOT NULL DEFAULT orrery_now(),
    moved_at timestamptz NOT NULL DEFAULT orrery_now()
);
CREATE INDEX reopenings_turn ON reopenings (moved_at, reopening_id);
CREATE INDEX reopenings_task ON reopenings (task_id);
