"""Job generation: input to jobs, and the end of jobs to the state of the input.

Consumes `task.ready`, `task.released`, `task.commanded`, `task.jumbo_switched`, `task.points_opened`,
`chunk.brokered`, `chunk.unplaceable`, `jobs.started` and `jobs.transferring` (of copies), `jobs.finished`,
`jobs.failed`, `jobs.expired`, `jobs.merging`, its own `tasks.counted`; receives the news `config.changed`.
Emits `tasks.counted`, `chunk.offered`, `jobs.generated`, `jobs.finished` and `jobs.failed` (of jobs that waited to be
merged), `task.progressed`, `task.prepared`; `jobs.reordered` when waiting jobs have other order keys; `tasks.woken`
when a share that had enough queued has room again.
Sets `use_jumbo` of tasks by what became of their jumbo jobs.
Owns the inserts of chunks, jobs, job_specs, job_files, requirement_shapes, task_queues, order_keys,
job_retry_history, outputs and random seeds in task_files; order keys of jobs; the counters of task_datasets; attempts,
owners and states of files; what scouts measure; generation_decisions, generation_history, generation_gates,
dirty_tasks, task_job_counts, task_usage, counter_audits and counter_audit_parts; retry_rules, retry_decisions,
raised_memory, builds, preprocessing_results, hpo_searches and hpo_points; rows of waits for tasks held by their share;
the move of counted jobs to jobs_archive.

Every transaction that changes a task locks its row first, then its jobs, then its files and datasets, each in order of
id, and the gate of a task last, because everybody who offers input for the same share comes through it. That makes each
task sequential, whatever arrives twice, late or in another order; tasks are independent of each other. Jobs that
finished and mean nothing to others are counted without their task's row: their files are theirs alone, and the counters
of datasets are the last that is locked. What follows of ends that were counted is settled apart (dirty_tasks). The
jobs that a transaction may end are locked by one statement: with merge jobs, the jobs whose outputs they merge. Whoever
else locks several jobs (reports, commands) does so in order of id too, and takes no task's row after them, so that
transactions do not wait in a circle.

=================  ================================================================================================
`app`              builds every object
`handlers`         each event goes to the step that it is for
`kinds`            a room for each kind of jobs: scouts, builds, merges, event service, ...; `registered`: all of them
`steps`            the plain path of a task: offering, making, counting, settling; `doors`: what these ask kinds of jobs
`requesting`       jobs of any kind are built and inserted
`api`              rules of retries over HTTP
`auditing`         counters of datasets and job sets compared with their contents, and corrected
`throttle`         one gate for each share and resource type: how much it lets through, who goes first, who is woken
`scouts`           what the first jobs measured, and whether the task may go on
`retry`            what rules say about jobs that failed, before their input is tried again
`supplying`        what jobs need besides their input: secondary files, seeds, datasets of sites, matches of sites
`ordering`         order keys of new jobs, and those of waiting jobs again when the VO orders them otherwise
`store`            the SQL that steps and several kinds share; what one room alone asks is in its own
`parameters`       runtime parameters
`generating`       what a VO may replace of the three below
`specification`    what the pilot is told of a job
`splitting`        one chunk cut into jobs at its queues
`policy`           what tasks and files look like, picking, outcomes, groups of merges
=================  ================================================================================================

Each imports only from below it in this table (import-linter holds the order); from `generating` on they are pure.
Steps know no kind but scouts and normal ones.
"""
