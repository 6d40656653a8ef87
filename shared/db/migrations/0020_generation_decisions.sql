-- Why a task's generation last went on or was held back: the latest decision of each task, for people who ask.
CREATE TABLE generation_decisions (
    task_id bigint PRIMARY KEY REFERENCES tasks,
    decided_at timestamptz NOT NULL DEFAULT orrery_now(),
    outcome text NOT NULL CHECK (outcome IN ('pass', 'throttled', 'unplaceable', 'unsplittable', 'scouts', 'broken')),
    reason text NOT NULL,
    numbers jsonb NOT NULL DEFAULT '{}',
    retry_at timestamptz
);

-- Scout jobs of a task are counted again and again while it is scouting; there are few of them.
CREATE INDEX jobs_scouts ON jobs (task_id) WHERE job_type = 'scout';
-- Unmerged outputs that wait to be merged.
CREATE INDEX task_files_on_hold ON task_files (task_id, dataset_id) WHERE status = 'ready' AND boundary_id IS NOT NULL
    AND type IN ('trn_output', 'trn_log', 'tmpl_trn_output', 'tmpl_trn_log');
