-- Who counts the jobs of a working group asks its live tasks only: a group has had many more.
DROP INDEX tasks_working_group;
CREATE INDEX tasks_of_live_group ON tasks (working_group)
    WHERE working_group <> '' AND status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted');
