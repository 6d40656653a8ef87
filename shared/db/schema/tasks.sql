-- Tasks: what was asked for, where each stands, and the work on its commands. Columns of the specification's tables
-- keep their meaning; jeditaskid is task_id and pandaid is job_id everywhere.

-- The rule of shared/model/analysis.py, for statements: the type of the task decides, the label where there is none.
CREATE FUNCTION orrery_is_analysis(task_type text, label text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN coalesce(task_type, '') <> '' THEN task_type = 'anal'
                ELSE coalesce(label IN ('user', 'panda'), false) END
$$;

-- The rule DETAILS (shared/auth/access.py) for statements that filter by it: the owner in the VO, production of the VO.
-- Lists of VOs are those of the reader; NULL stands for every VO, and '' for what is of none.
CREATE FUNCTION orrery_may_read(owner text, vo text, reader text, own_vos text[], produced_vos text[])
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT produced_vos IS NULL OR coalesce(vo, '') = ANY(produced_vos)
        OR (coalesce(owner, '') <> '' AND owner = reader AND (own_vos IS NULL OR coalesce(vo, '') = ANY(own_vos)))
$$;

-- The datasets that the JSON of a task says it writes, without their scopes. As an index it costs a comparison of names
-- where reading the JSON of every task that waits to be defined would cost each submission more with each of them.
CREATE FUNCTION orrery_stated_outputs(parameters jsonb)
RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 1000 AS $$
    SELECT coalesce(array_agg(DISTINCT regexp_replace(item ->> 'dataset', '^[^:]*:', ''))
                    FILTER (WHERE item ->> 'dataset' IS NOT NULL), '{}')
      FROM (SELECT jsonb_path_query(parameters, '$.jobParameters[*] ? (@.param_type == "output" || @.param_type == "log")')
            UNION ALL SELECT jsonb_path_query(parameters, '$.log[*] ? (@.type() == "object")')) items (item)
$$;

-- Ids of tasks.
CREATE SEQUENCE task_ids;

-- A task: a scientific workload over datasets of files. An amount is in the unit of the column after it.
CREATE TABLE tasks (
    task_id bigint PRIMARY KEY DEFAULT nextval('task_ids'),   -- its id
    task_name varchar(132) NOT NULL,           -- its name
    unique_name boolean NOT NULL DEFAULT false,   -- whether no other task of its VO may have the name (uniqueTaskName)
    parent_tid bigint,                         -- the task whose output it works on; itself: none (JEDI: PARENT_TID)
    req_id bigint,                             -- the request it belongs to

    -- Whose it is, and what kind of work
    user_name varchar(128) NOT NULL,           -- its owner
    submitted_by text,                         -- who submitted it, as the issuer of the token names them
    changed_by text,                           -- who else changed its parameters last: then no secrets go to its jobs
    vo varchar(16),                            -- VO
    working_group varchar(32),                 -- working group
    country_group varchar(20),                 -- country group; kept, nothing is decided by it
    prod_source_label varchar(20),             -- managed, user, test, ...
    task_type varchar(64),                     -- prod or anal
    processing_type varchar(64),               -- simul, reco, ...
    campaign varchar(32),                      -- campaign, for shares
    request_type varchar(32),                  -- kind of request; kept, nothing is decided by it
    work_queue_id int REFERENCES work_queues,  -- the kind of work that decides throttling and shares
    gshare text,                               -- its share
    task_priority int,                         -- priority as submitted
    current_priority int NOT NULL DEFAULT 0,   -- priority now: raised near the end, or by a command

    -- Where it stands
    status varchar(64) NOT NULL,               -- state of shared/states/task.py
    old_status varchar(64),                    -- the state it goes back to (pending, paused, throttled)
    super_status varchar(64),                  -- kept from the specification; drives nothing
    error_dialog text,                         -- why it waits or failed, for people
    progress int,                              -- how much of its input is processed, in percent
    failure_rate int,                          -- how many of its jobs failed, in percent
    attempt_nr int NOT NULL DEFAULT 0,         -- how often it was retried: what the limits of retries are compared with
    creation_date timestamptz NOT NULL DEFAULT orrery_now(),       -- when it was submitted
    modification_time timestamptz NOT NULL DEFAULT orrery_now(),   -- of the row's last change
    state_change_time timestamptz NOT NULL DEFAULT orrery_now(),   -- of the last change of state
    start_time timestamptz,                    -- when its first jobs were made; forgotten by a retry
    end_time timestamptz,                      -- when it reached its end
    frozen_time timestamptz,                   -- since when it waits; forgotten when it succeeds
    retry_at timestamptz,                      -- when it is looked at again while it waits
    throttled_time timestamptz,                -- when it was throttled last
    num_throttled int DEFAULT 0,               -- how often it was throttled; NULL: it never is
    assessment_time timestamptz,               -- when progress and failure rate were last worked out anew
    rescue_time timestamptz,                   -- when the sweep of the watchdog last found it without progress
    locked_by varchar(40), locked_time timestamptz,   -- kept from the specification; compare-and-set does their work
    hold text,                                 -- why its owner may not let it go on without production; NULL: may
    held_until timestamptz,                    -- until when that holds; NULL: until production lets it go on
    killed_by_user text,                       -- who killed it by the right of its owner alone; NULL: nobody, or others

    -- The last command
    command text,                              -- the last command, for people and for who carries it out
    command_time timestamptz,                  -- when it was given
    command_details jsonb,                     -- its arguments

    -- How it is cut into jobs, tried again and ended
    split_rule jsonb NOT NULL DEFAULT '{}',    -- every rule under its JSON name (nFilesPerJob, skipScout, ...)
    measured_rules text[] NOT NULL DEFAULT '{}',   -- rules that jobs measured: the parameters do not replace them
    max_attempt int NOT NULL DEFAULT 3 CHECK (max_attempt > 0),   -- how often a file is tried
    max_failure int CHECK (max_failure > 0),   -- how often a file may fail through the work itself
    goal int,                                  -- how much of its input must be processed, in per mille; NULL: all
    term_condition varchar(100),               -- ends it: "90% of files" or "90% of events" were processed
    takes_unstaged boolean NOT NULL DEFAULT false,   -- input on tape is used although inputPreStaging asks for disk

    -- What its jobs run
    architecture varchar(256),                 -- platform, CPU and GPU that jobs need
    trans_uses varchar(64),                    -- release of the software
    trans_home varchar(128),                   -- the software
    trans_path varchar(128),                   -- the transformation
    container_name text,                       -- the container image

    -- What its jobs need: as stated, then as scouts measured it
    resource_type text,                        -- SCORE, MCORE, ...
    core_count int CHECK (core_count >= 0),    -- cores; 0: any number; NULL: 1
    ram_count bigint, ram_unit varchar(32),    -- memory
    base_ram_count bigint,                     -- memory that does not grow with the cores, in MB
    walltime bigint, walltime_unit varchar(32),               -- wall time
    base_walltime bigint,                      -- wall time that does not grow with the input, in s
    cpu_time bigint, cpu_time_unit varchar(32),               -- CPU time
    cpu_efficiency int,                        -- how much of the wall time is CPU time, in percent
    out_disk_count bigint, out_disk_unit varchar(32),         -- size of outputs
    work_disk_count bigint, work_disk_unit varchar(32),       -- disk that a payload works with
    io_intensity bigint, io_intensity_unit varchar(32),       -- input and output over the network
    disk_io bigint, disk_io_unit varchar(32),                 -- disk IO
    ip_connectivity text,                      -- the network that worker nodes must have
    merge_core_count int,                      -- the same of merge jobs: cores
    merge_ram_count bigint, merge_ram_unit varchar(32),       -- memory
    merge_walltime bigint, merge_walltime_unit varchar(32),   -- wall time
    fixed_units text[] NOT NULL DEFAULT '{}',      -- columns whose unit said Fixed: scouts never overwrite them
    measured_units text[] NOT NULL DEFAULT '{}',   -- columns measured by scouts

    -- Where it runs
    nucleus varchar(52),                       -- the site that holds its outputs
    site text,                                 -- the queues it is limited to
    cloud varchar(10),                         -- the cloud it is limited to

    -- Event service
    event_service smallint NOT NULL DEFAULT 0, -- 1: jobs process ranges of events; 3: jobs are cloned; 0: neither
    use_jumbo char(1),                         -- jumbo jobs: W waiting for the first, D disabled, ...; NULL: none
    jumbo_queues jsonb,                        -- queues that passed every filter: [[queue, resource type]]
    co_jumbo_retry_at timestamptz,             -- when queues are asked again for job sets that wait for co-jumbo jobs
    co_jumbo_after bigint NOT NULL DEFAULT 0,  -- the last job set for which they were asked in this round; 0: none

    -- For other systems
    ticket_id varchar(50),                     -- kept from the specification; drives nothing
    ticket_system_type varchar(16),            -- kept from the specification; drives nothing
    ami_flag varchar(10)                       -- READY once it was done or finished, so that AMI is aware of it
) WITH (fillfactor = 80);
CREATE INDEX tasks_name ON tasks (task_name);
-- Names that are to be the only ones are so in their VO: what others call their tasks is not told.
CREATE UNIQUE INDEX tasks_unique_name ON tasks (vo, task_name) WHERE unique_name;
CREATE INDEX tasks_live ON tasks (status, current_priority DESC, task_id)
    WHERE status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted');
CREATE INDEX tasks_by_status ON tasks (status, task_type, current_priority DESC, task_id);
CREATE INDEX tasks_command ON tasks (task_id) WHERE command IS NOT NULL;
CREATE INDEX tasks_user ON tasks (user_name, status, current_priority DESC, task_id);
-- The newest tasks of a user among all tasks, also of one who has submitted nothing for long.
CREATE INDEX tasks_user_newest ON tasks (user_name, task_id);
-- The newest tasks of a VO, also of one with few among many of others.
CREATE INDEX tasks_vo_newest ON tasks (vo, task_id);
CREATE INDEX tasks_created ON tasks (creation_date);
CREATE INDEX tasks_changed ON tasks (state_change_time);
CREATE INDEX tasks_frozen ON tasks (frozen_time) WHERE frozen_time IS NOT NULL;
-- States that should pass: who is longest in one is found without reading the others.
CREATE INDEX tasks_passing ON tasks (status, state_change_time, task_id)
    WHERE status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted', 'ready', 'scouting', 'running');
CREATE INDEX tasks_passing_of_user ON tasks (user_name, status, state_change_time, task_id)
    WHERE status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted', 'ready', 'scouting', 'running');
-- whose owners may have to be told that they wait
CREATE INDEX tasks_pending ON tasks (frozen_time) WHERE status = 'pending';
CREATE INDEX tasks_retry ON tasks (retry_at) WHERE retry_at IS NOT NULL;
CREATE INDEX tasks_parent ON tasks (parent_tid) WHERE parent_tid IS NOT NULL;
-- those whose input others leave out are kept as long as these
CREATE INDEX tasks_skipping ON tasks USING gin ((split_rule -> 'skipFilesUsedBy')) WHERE split_rule ? 'skipFilesUsedBy';
CREATE INDEX tasks_locked ON tasks (locked_time) WHERE locked_by IS NOT NULL;
CREATE INDEX tasks_nucleus ON tasks (nucleus) WHERE nucleus IS NOT NULL
    AND status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted');
-- Who counts the jobs of a working group asks its live tasks only: a group has had many more.
CREATE INDEX tasks_of_live_group ON tasks (working_group, coalesce(vo, ''), user_name)
    WHERE working_group <> '' AND status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted');
CREATE INDEX tasks_of_live_users ON tasks (user_name, vo)
    WHERE status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted');
-- Tasks that may make jobs, the most urgent first: asked when a share, or a work queue that is throttled by itself, has
-- enough queued.
CREATE INDEX tasks_generating ON tasks (gshare, resource_type, current_priority DESC)
    WHERE status IN ('ready', 'scouting', 'running');
CREATE INDEX tasks_of_work_queues ON tasks (work_queue_id, current_priority DESC)
    WHERE work_queue_id IS NOT NULL AND status IN ('ready', 'scouting', 'running');
-- Tasks that may be sent to an empty queue, the most urgent first.
CREATE INDEX tasks_fillable ON tasks (prod_source_label, (-current_priority), task_id)
    WHERE event_service = 0 AND coalesce(site, '') = '' AND status IN ('ready', 'running');
-- Tasks that read much and may be withheld.
CREATE INDEX tasks_withholdable ON tasks (gshare, current_priority, task_id)
    WHERE io_intensity >= 100 AND status IN ('ready', 'scouting', 'running', 'throttled');
-- Tasks of a share that are nearly done: they may get another share.
CREATE INDEX tasks_progress ON tasks (gshare, progress)
    WHERE status IN ('scouting', 'scouted', 'running', 'pending', 'throttled');
-- Tasks that have not ended, in the order in which the sweep and the audit of counters go through them. IS TRUE keeps the
-- planner from it where others ask for live tasks: they have better ones.
CREATE INDEX tasks_in_turn ON tasks (task_id)
    WHERE (status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')) IS TRUE;
-- Tasks that end when they have as much as their owner wanted.
CREATE INDEX tasks_with_goal ON tasks (state_change_time)
    WHERE status = 'running' AND (goal > 0 AND goal < 1000 OR term_condition IS NOT NULL);
-- Event-service tasks of which jumbo jobs may be switched.
CREATE INDEX tasks_event_service ON tasks (task_id)
    WHERE event_service = 1 AND status IN ('ready', 'pending', 'scouting', 'scouted', 'running', 'throttled');
CREATE INDEX tasks_co_jumbo_retry ON tasks (co_jumbo_retry_at)
    WHERE co_jumbo_retry_at IS NOT NULL AND status IN ('ready', 'scouting', 'running');

-- Who works for which working group now: each is looked up once, however many tasks they have. Index tasks_of_live_group.
CREATE FUNCTION orrery_members_of_live_groups() RETURNS TABLE (working_group text, vo text, user_name text)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE member (working_group, vo, user_name) AS (
        (SELECT t.working_group::text, coalesce(t.vo, '')::text, t.user_name::text FROM tasks t
          WHERE t.working_group <> '' AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
          ORDER BY t.working_group, coalesce(t.vo, ''), t.user_name LIMIT 1)
        UNION ALL
        SELECT n.working_group, n.vo, n.user_name FROM member m CROSS JOIN LATERAL (
            SELECT t.working_group::text, coalesce(t.vo, '')::text AS vo, t.user_name::text FROM tasks t
             WHERE t.working_group <> '' AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
               AND (t.working_group, coalesce(t.vo, ''), t.user_name) > (m.working_group, m.vo, m.user_name)
             ORDER BY t.working_group, coalesce(t.vo, ''), t.user_name LIMIT 1) n)
    SELECT * FROM member
$$;


CREATE TRIGGER tasks_transitions AFTER UPDATE ON tasks
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION check_and_log_tasks();
CREATE TRIGGER tasks_inserted AFTER INSERT ON tasks
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION check_inserted_status('task');
CREATE TRIGGER tasks_insert_logged AFTER INSERT ON tasks
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION log_inserted_tasks();

-- Tasks that are wanted by a time (ttcrTimestamp), with when they will end as it was worked out last. A row leaves when its
-- task has ended; a retry writes it anew.
CREATE TABLE task_deadlines (
    task_id bigint PRIMARY KEY,                -- the task
    due_at timestamptz NOT NULL,               -- by when its owner wants it
    look_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when the end is worked out again
    looked_at timestamptz,                     -- when it was worked out; NULL: not yet
    earliest_at timestamptz,                   -- it ends no earlier, at the better of two rates; NULL: nobody can say
    latest_at timestamptz,                     -- and no later, at the worse one; NULL: nobody can say
    told text,                                 -- how that was worked out, for people
    older_at timestamptz, older_n bigint,      -- units of input that had ended an hour or two ago
    newer_at timestamptz, newer_n bigint       -- and within the last hour
);
CREATE INDEX task_deadlines_due ON task_deadlines (look_at);

-- Queues that have fewer jobs waiting than they could run.
CREATE TABLE empty_queues (
    queue text PRIMARY KEY,                    -- the queue
    empty_since timestamptz NOT NULL DEFAULT orrery_now(),   -- since when
    tried_at timestamptz                       -- when all tasks were last looked at for it; NULL: not yet
);

-- Tasks that the queue filler sent to an empty queue. One that may go anywhere again stays for half a day: it is not sent
-- to a queue again at once.
CREATE TABLE preassigned_tasks (
    task_id bigint PRIMARY KEY,                -- the task
    queue text NOT NULL,                       -- where it goes
    resource_type text NOT NULL,               -- of which so many are sent to a queue
    sent_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when
    released_at timestamptz                    -- when it was let go; NULL: it still goes there
);
CREATE INDEX preassigned_tasks_of_queue ON preassigned_tasks (queue, resource_type) WHERE released_at IS NULL;
CREATE INDEX preassigned_tasks_released ON preassigned_tasks (released_at) WHERE released_at IS NOT NULL;

-- Why actions of the watchdog did not choose a task that they looked at.
CREATE TABLE passed_over (
    task_id bigint NOT NULL,                   -- the task
    action text NOT NULL,                      -- the action, as `orrery watchdog list` has it
    reason text NOT NULL,                      -- why not, for people
    since timestamptz NOT NULL DEFAULT orrery_now(),   -- since when that is so
    PRIMARY KEY (task_id, action)
);

-- What owners of tasks are to be told by mail; nothing is written where no mail server is set.
CREATE TABLE notices (
    notice_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- its number
    task_id bigint NOT NULL,                   -- the task
    cause text NOT NULL,                       -- the state that it came into; waits: only its owner can help
    since timestamptz NOT NULL,                -- when that began: each time is told once
    status text NOT NULL DEFAULT 'waiting'
        CHECK (status IN ('waiting', 'sent', 'not told', 'given up')),   -- not told: the VO's plugin says nothing
    noted_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it was written down
    attempts int NOT NULL DEFAULT 0,           -- how often it was tried to send the letter; fences its sender
    next_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it is tried next
    ended_at timestamptz,                      -- when it was sent, or given up
    reason text,                               -- why it could not be sent
    UNIQUE (task_id, cause, since)
);
CREATE INDEX notices_due ON notices (next_at) WHERE status = 'waiting';
CREATE INDEX notices_noted ON notices (noted_at);

-- Names of tasks, to find them by any part: apart, because each change of a task's row would enter some fifty parts of
-- its name anew (2.4 kB of WAL). Names never change.
CREATE TABLE task_names (
    task_id bigint PRIMARY KEY REFERENCES tasks ON DELETE CASCADE,   -- the task
    name text NOT NULL                         -- its name
);
CREATE INDEX task_names_parts ON task_names USING gin (name gin_trgm_ops);
CREATE FUNCTION tasks_have_names() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO task_names (task_id, name) VALUES (NEW.task_id, NEW.task_name);
    RETURN NULL;
END $$;
CREATE TRIGGER tasks_have_names AFTER INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION tasks_have_names();
ALTER TABLE tasks ENABLE ALWAYS TRIGGER tasks_have_names;

-- The JSON of a task: as it was submitted, or as a command changed it.
CREATE TABLE task_parameters (
    task_id bigint PRIMARY KEY REFERENCES tasks,   -- the task
    task_parameters jsonb NOT NULL             -- the JSON
);
CREATE INDEX task_parameters_outputs ON task_parameters
    USING gin (orrery_stated_outputs(task_parameters)) WITH (fastupdate = off);

-- The command lines of a task's jobs, with placeholders such as ${IN} and ${OUTPUT0}.
CREATE TABLE job_parameters_templates (
    task_id bigint PRIMARY KEY REFERENCES tasks,   -- the task
    job_parameters_template jsonb NOT NULL     -- texts by kind of job: normal, merge, build, preprocess, ...
);

-- Tasks that are submitted again every period until their end. A series goes by what the newest token of its submitter
-- said, not by that of its submission alone.
CREATE TABLE periodic_tasks (
    periodic_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- its number
    task_name varchar(128) NOT NULL,           -- name of its tasks, before the number of each
    user_name varchar(128) NOT NULL,           -- owner
    vo varchar(16) NOT NULL,                   -- VO
    task_parameters jsonb NOT NULL,            -- what is submitted
    caller jsonb NOT NULL,                     -- who submitted it: each task is submitted with these rights
    submitter text GENERATED ALWAYS AS (caller ->> 'name') STORED,   -- the submitter's name
    source text,                               -- whose token: an issuer, certificates, '' our own; NULL: not known
    seen jsonb,                                -- what the newest token said; NULL: that of the submission
    seen_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when
    period_s bigint NOT NULL CHECK (period_s >= 60),     -- the time between two submissions
    status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused', 'ended')),   -- whether it goes on
    next_at timestamptz NOT NULL,              -- when the next task is submitted
    ends_at timestamptz,                       -- when it ends; NULL: when it is ended
    n_submitted int NOT NULL DEFAULT 0,        -- tasks so far
    n_refused int NOT NULL DEFAULT 0,          -- refused one after the other since a task was accepted
    last_task_id bigint,                       -- the last task
    last_error text,                           -- why the last one was refused
    creation_time timestamptz NOT NULL DEFAULT orrery_now(),      -- when it was submitted
    state_change_time timestamptz NOT NULL DEFAULT orrery_now()   -- of the last change of `status`
);
CREATE INDEX periodic_tasks_due ON periodic_tasks (next_at) WHERE status = 'active';
CREATE INDEX periodic_tasks_user ON periodic_tasks (user_name, status);
CREATE INDEX periodic_tasks_submitter ON periodic_tasks (submitter) WHERE status <> 'ended';
CREATE INDEX periodic_tasks_seen ON periodic_tasks (seen_at) WHERE status = 'active';

-- Commands that end or hold the jobs of a task, while they are worked off: a few hundred jobs in each transaction. The
-- row is there as long as there is something left to do, so that whoever lives goes on after a crash.
CREATE TABLE command_progress (
    task_id bigint PRIMARY KEY,                -- the task
    command text NOT NULL,                     -- what is done with its jobs
    soft boolean NOT NULL,                     -- of finish: what runs is left to end
    step int NOT NULL DEFAULT 0,               -- how far it is
    n_jobs bigint NOT NULL DEFAULT 0,          -- jobs so far
    started_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it began
    moved_at timestamptz NOT NULL DEFAULT orrery_now()      -- of the last slice: who waited longest is next
);
CREATE INDEX command_progress_turn ON command_progress (moved_at);

-- Commands that open the input of a task again, while they are worked off: some thousand units in each transaction. The
-- row is there as long as there is something left to do, so that whoever lives goes on after a crash.
CREATE TABLE reopenings (
    reopening_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- its number
    task_id bigint NOT NULL,                   -- the task
    kind text NOT NULL CHECK (kind IN ('retry', 'read_again', 'live')),   -- what is opened
    came_from text NOT NULL,                   -- the state of the task before it
    verb text NOT NULL,                        -- the command
    details jsonb NOT NULL,                    -- its arguments
    reason text NOT NULL,                      -- for the log of transitions
    by_production boolean NOT NULL,            -- whether production gave it
    steps jsonb NOT NULL,                      -- units in which state become ready, with how many more attempts
    position jsonb,                            -- where the last slice ended
    last_file_id bigint NOT NULL,              -- units that came later are no part of it
    n_reopened bigint NOT NULL,                -- units so far
    n_left bigint NOT NULL,                    -- units that were not done when it began
    started_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it began
    moved_at timestamptz NOT NULL DEFAULT orrery_now()      -- of the last slice: who waited longest is next
);
CREATE INDEX reopenings_turn ON reopenings (moved_at, reopening_id);
CREATE INDEX reopenings_task ON reopenings (task_id);

-- What the pre-processing job of a task returned, until the task is refined with it.
CREATE TABLE preprocessing_results (
    task_id bigint PRIMARY KEY REFERENCES tasks,   -- the task
    job_id bigint NOT NULL,                    -- the job
    returned jsonb NOT NULL,                   -- its metadata as reported
    ended_at timestamptz NOT NULL DEFAULT orrery_now()   -- when it ended
);

-- How many jobs of a task ended, counted when their results are: ended jobs leave the hot table.
CREATE TABLE task_job_counts (
    task_id bigint PRIMARY KEY REFERENCES tasks,   -- the task
    n_finished bigint NOT NULL DEFAULT 0,      -- finished
    n_failed bigint NOT NULL DEFAULT 0,        -- failed
    -- its needs are measured again when so many have finished: after its scouts, and when a rule asks for it
    measures_at bigint,
    tried_at timestamptz                       -- when one last ended that did not finish, up to a minute earlier
);
-- Tasks that may be tried too often, or fail too much, since somebody last looked.
CREATE INDEX task_job_counts_tried ON task_job_counts (tried_at) WHERE tried_at IS NOT NULL;

-- Core seconds that jobs of a task had at each queue, counted when their results are: the HEP score rate of failures is
-- that of these, and ended jobs leave the hot table.
CREATE TABLE task_usage (
    task_id bigint NOT NULL REFERENCES tasks,  -- the task
    queue text NOT NULL,                       -- the queue
    finished_core_s double precision NOT NULL DEFAULT 0,   -- of jobs that finished
    failed_core_s double precision NOT NULL DEFAULT 0,     -- of jobs that failed
    PRIMARY KEY (task_id, queue)
);

-- How much of a task's input asks for which raised memory: from 30 % on the whole task gets it.
CREATE TABLE raised_memory (
    task_id bigint NOT NULL,                   -- the task
    ram_mb bigint NOT NULL,                    -- the memory
    n_files bigint NOT NULL CHECK (n_files >= 0),   -- files that ask for it
    PRIMARY KEY (task_id, ram_mb)
);
