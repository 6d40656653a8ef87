-- Files are looked for by name once they are finished: what made a file, and what has read it. An index of those alone
-- costs nothing while files are made, picked and worked on. It takes the place of task_files_lfn, which the next
-- migration drops: that is short and locks everybody out, while this is long and lets everybody read.
CREATE INDEX task_files_finished ON task_files (lfn) WHERE status = 'finished' AND type IN ('input', 'output');
