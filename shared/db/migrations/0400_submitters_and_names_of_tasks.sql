-- Who submitted a task, by the name that the issuer of the token gives (with its prefix), and who else changed its
-- parameters last. Secrets go to jobs of tasks that their owner submitted and nobody else changed; of tasks that were
-- submitted before this nobody knows, so they get none.
ALTER TABLE tasks ADD COLUMN submitted_by text, ADD COLUMN changed_by text;

-- Names that are to be the only ones are so in their VO: what others call their tasks is not told.
DROP INDEX tasks_unique_name;
CREATE UNIQUE INDEX tasks_unique_name ON tasks (vo, task_name) WHERE unique_name;
