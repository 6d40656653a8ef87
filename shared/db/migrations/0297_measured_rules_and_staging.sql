-- Split rules that job generation set or took away, by what jobs measured: a task that reads its parameters again keeps
-- these, unless a command has stated them since.
ALTER TABLE tasks ADD COLUMN measured_rules text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN tasks.measured_rules IS 'split rules that were measured: the parameters do not replace them';

-- Somebody decided that input on tape counts as if it were on disk.
ALTER TABLE tasks ADD COLUMN takes_unstaged boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN tasks.takes_unstaged IS 'input on tape is used although inputPreStaging asks for disk';

-- That input must be staged shows when it was read: until then a task waits as staging, not as pending.
INSERT INTO allowed_transitions (entity, from_status, to_status) VALUES ('task', 'defined', 'staging');
