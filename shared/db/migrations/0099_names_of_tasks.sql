-- Names of tasks are unique only among those that ask for it (uniqueTaskName).
ALTER TABLE tasks ADD COLUMN unique_name boolean NOT NULL DEFAULT false;
DROP INDEX tasks_name;
CREATE INDEX tasks_name ON tasks (task_name);
CREATE UNIQUE INDEX tasks_unique_name ON tasks (task_name) WHERE unique_name;
