-- Commands that end or hold the jobs of a task, while they are worked off: a few hundred jobs in each transaction. The row
-- is there as long as there is something left to do, so that whoever lives goes on after a crash.
CREATE TABLE command_progress (
    task_id bigint PRIMARY KEY,
    command text NOT NULL,
    soft boolean NOT NULL,
    step int NOT NULL DEFAULT 0,
    n_jobs bigint NOT NULL DEFAULT 0,
    started_at timestamptz NOT NULL DEFAULT orrery_now(),
    moved_at timestamptz NOT NULL DEFAULT orrery_now()
);
CREATE INDEX command_progress_turn ON command_progress (moved_at);
