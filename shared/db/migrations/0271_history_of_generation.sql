-- What was decided about a task's generation, the last 20: the table beside it has the latest only, by which the system
-- works. Waits of one kind that follow each other are one row, with how often and since when.
CREATE TABLE generation_history (
    decision_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id bigint NOT NULL,
    first_at timestamptz NOT NULL DEFAULT orrery_now(),
    last_at timestamptz NOT NULL DEFAULT orrery_now(),
    n_times int NOT NULL DEFAULT 1,
    outcome text NOT NULL,
    reason text NOT NULL,
    numbers jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX generation_history_task ON generation_history (task_id, decision_id);
ALTER TABLE generation_decisions DROP CONSTRAINT generation_decisions_outcome_check;
ALTER TABLE generation_decisions ADD CONSTRAINT generation_decisions_outcome_check CHECK (
    outcome IN ('pass', 'throttled', 'unplaceable', 'unsplittable', 'scouts', 'broken', 'exhausted', 'retry'));
