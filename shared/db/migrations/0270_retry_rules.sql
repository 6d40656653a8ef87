-- Rules about errors of jobs (PanDA: job retry rules): what is done before their input is tried again.
CREATE TABLE retry_rules (
    rule_id int PRIMARY KEY CHECK (rule_id > 0),
    source text NOT NULL CHECK (source IN ('pilot', 'payload', 'transformation', 'system')),
    code int,
    pattern text,
    action text NOT NULL CHECK (action IN ('no_retry', 'limit_retry', 'increase_memory', 'increase_memory_xtimes',
                                           'increase_cputime', 'reduce_input_per_job', 'other_site', 'broken_input')),
    parameters jsonb NOT NULL DEFAULT '{}',
    architecture text,
    release text,
    work_queue_id int,
    expires_at timestamptz,
    is_active boolean NOT NULL DEFAULT true,
    note text NOT NULL DEFAULT ''
);

-- What holds from the start: the pilot's codes for a payload without memory, and for input whose checksum or size is not
-- that of the catalogue. One site's copy may be bad where the file is good: the second attempt is believed.
INSERT INTO retry_rules (rule_id, source, code, action, parameters, note) VALUES
    (1, 'pilot', 1212, 'increase_memory', '{}', 'the payload ran out of memory'),
    (2, 'pilot', 1223, 'increase_memory', '{}', 'the payload exceeded its memory'),
    (3, 'pilot', 1235, 'increase_memory', '{}', 'the batch system ended the job for its memory'),
    (4, 'pilot', 1145, 'broken_input', '{"fromAttempt": 2}', 'stage-in: the file is not as the catalogue says'),
    (5, 'pilot', 1171, 'broken_input', '{"fromAttempt": 2}', 'stage-in: the checksum is not that of the catalogue');

-- Which rule decided about a job that failed, for people who ask; kept as long as the texts of jobs.
CREATE TABLE retry_decisions (
    job_id bigint PRIMARY KEY,
    task_id bigint NOT NULL,
    rule_id int NOT NULL,
    action text NOT NULL,
    is_active boolean NOT NULL,
    reason text NOT NULL,
    decided_at timestamptz NOT NULL DEFAULT orrery_now()
);
CREATE INDEX retry_decisions_task ON retry_decisions (task_id, rule_id);
CREATE INDEX retry_decisions_age ON retry_decisions (decided_at);

-- How much of a task's input asks for which raised memory: from 30 % on the whole task gets it.
CREATE TABLE raised_memory (
    task_id bigint NOT NULL,
    ram_mb bigint NOT NULL,
    n_files bigint NOT NULL CHECK (n_files >= 0),
    PRIMARY KEY (task_id, ram_mb)
);

-- The site where a unit of input failed and is not tried again as long as there is another (other_site).
ALTER TABLE task_files ADD COLUMN avoided_site text;
-- Whether the needs of a task are measured again at its next jobs' end.
ALTER TABLE task_job_counts ADD COLUMN measures_again boolean NOT NULL DEFAULT false;
