-- Hyper-parameter optimisation: the points of a task are event ranges of its one pseudo file, and its job set a search.
ALTER TABLE job_sets ADD COLUMN is_search boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN job_sets.is_search IS 'its ranges are points of a search: its jobs evaluate them, and none merges';
CREATE TABLE hpo_searches (
    file_id bigint PRIMARY KEY,
    task_id bigint NOT NULL REFERENCES tasks,
    dataset_id bigint NOT NULL,
    -- the job set that works on it now
    job_set_id bigint NOT NULL REFERENCES job_sets,
    most_points int NOT NULL,
    -- null: an optimiser adds the points while the task runs
    points_per_generation int,
    min_unevaluated int NOT NULL DEFAULT 0,
    range_attempts int NOT NULL,
    n_points int NOT NULL DEFAULT 0,
    next_point bigint NOT NULL DEFAULT 1,
    -- without those that were taken back before they ran
    n_jobs int NOT NULL DEFAULT 0,
    is_over boolean NOT NULL DEFAULT false
);
CREATE UNIQUE INDEX hpo_searches_set ON hpo_searches (job_set_id);
CREATE INDEX hpo_searches_task ON hpo_searches (task_id);
-- Points that an optimiser added, by the number it has for each.
CREATE TABLE hpo_points (
    task_id bigint NOT NULL REFERENCES tasks,
    point_id bigint NOT NULL CHECK (point_id >= 0),
    added_at timestamptz NOT NULL DEFAULT orrery_now(),
    added_by text NOT NULL,
    PRIMARY KEY (task_id, point_id)
);
