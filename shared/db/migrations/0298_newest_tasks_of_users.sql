-- The newest tasks of a user among all tasks, also of one who has submitted nothing for long.
CREATE INDEX tasks_user_newest ON tasks (user_name, task_id);
