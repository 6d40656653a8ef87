-- Open input is looked at in turn: what waited longest first.
DROP INDEX task_datasets_open;
CREATE INDEX task_datasets_open ON task_datasets (state_check_time)
    WHERE state_check_expiration IS NOT NULL AND state = 'open';
