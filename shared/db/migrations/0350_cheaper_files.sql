-- Nobody looks for logs, seeds and unmerged files by name. This index takes the place of task_files_lfn, which a later
-- migration drops: that is short and locks everybody out, while this is long and lets everybody read.
CREATE INDEX task_files_named ON task_files (lfn, scope, type) WHERE type IN ('input', 'output');
