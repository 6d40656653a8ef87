"""Accepts, checks and refines tasks, carries out commands, decides final statuses, hosts data.

Consumes `task.registered`, `task.released`, `task.progressed`, `task.prepared`, `task.completed`,
`task.command_requested`, `task.order_requested`, `task.site_requested`, `transfers.requested`, `outputs.produced`.
Emits `task.registered`, `task.defined`, `task.ready`, `task.commanded`, `task.released`, `task.completed`,
`outputs.registered`, `transfers.completed`, and the news `config.changed`. Owns the rows of tasks, task_parameters,
job_parameters_templates, output_templates, and the inserts of task_datasets and (input) task_files; how far input is
read (input_readings, dataset_readings) and opened again (reopenings); what is staged from tape (stage_ins); the schema
`catalogue`; the end of transfers; parameters; work_queues, users, user_groups; what owners are told (notices);
sandboxes with their parts; audit_log.

What the rows look like that the other services read:

* `tasks.split_rule`: every rule under its JSON name (`nFilesPerJob`, `nEventsPerJob`, `skipScout`, `mergeOutput`,
  ...), `nEventsPerInputFile` also where it was written `nEventsPerFile`; `nFilesPerJob` is derived where nEventsPerJob
  is a multiple of nEventsPerInputFile; `dynamicNumEvents` is the number of events of a range where minGranularity (or
  nEventsPerRange) is given, and `nFilesPerJob` then counts ranges; `destination` is that of the task or of its outputs.
* input: one `task_datasets` row for each dataset (containers are expanded), type input, `stream_name` IN for all
  masters (`master_id` NULL) and the placeholder's name for secondaries (`master_id` = the first master);
  `attributes` as in `services.task_definition.tasks.policy.task_spec_items.ATTRIBUTE_NAMES` (nosplit, ratio, ...).
* `task_files`: one row for each unit; `n_events` are the events of the unit, `fsize` is the whole file;
  `start_event`/`end_event` (counted from 0, both inclusive) only where files are split by events; `first_event` is the
  running number of the unit's first event.
* no input: one `pseudo_input` dataset (a master, stream SEQNUMBER) with one row for each job.
* random seeds: one dataset of type `random_seed`, stream RNDMSEED, `attributes.offset`; job_generation makes its rows.
* with buildSpec: the rule `useBuild`, one more `output` dataset (stream LIB, reusable) with a template of its own for
  what build jobs make, and the texts `build`, `build_trans_path`, `build_label` beside those of the other jobs.
* with preproSpec, first of all: one `pp_input` dataset with one unit, the rule `usePrePro` (1 to do, 2 its job was
  made, 3 done) and the texts `preprocess`, `preprocess_trans_path`, `preprocess_label`. The job returns task parameters
  as the object `taskParameters` of its metadata; the task is refined with them, and the `pp_input` leaves it.
* outputs: `output` (stream OUTPUT0, OUTPUT1, ...) and `log` (LOG0, ...) datasets, one `output_templates` row each
  with `out_type` = the dataset's type and `file_name_template` with ${SN} or ${SN/P}, $JEDITASKID already replaced,
  or an expression (regex|...), which stands for the files that a pilot finds. With mergeOutput there are also
  `trn_output` / `trn_log` datasets (stream TRN_OUTPUT0, ..., `template_id` = the final dataset's id) with templates
  of their own whose `stream_name` is OUTPUT0, ...: normal jobs use the templates of type trn_*, merge jobs those of
  type output and log.
* `job_parameters_templates.job_parameters_template`: {"normal": text, "merge": text or null, "source_url": ...,
  "merge_trans_path": ...}, the texts with placeholders ${IN}, ${OUTPUT0}, ${RNDMSEED}, ${TRN_OUTPUT0}, ...
* `n_files_to_be_used` of the masters is opened for ten scout jobs first, unless skipScout; of everything else at once.

============  =================================================================================================
`tasks`       a task from its form to its end: submitted, defined (`tasks.defining.reading`: how input is read),
              commanded, completed, explained
`data`        what tasks read and write: catalogues, imports, transfers, outputs, whose names are whose
`desk`        what people keep here: accounts, tokens, parameters, work queues, files of clients, the audit log
============  =================================================================================================

Imports go one way: `tasks` knows `data`, both know `desk`.
"""
