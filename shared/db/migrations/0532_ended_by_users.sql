-- Who killed a task by the right of its owner alone; NULL: nobody, or production, operators and services. Children of
-- others are not killed with it.
ALTER TABLE tasks ADD COLUMN killed_by_user text;
