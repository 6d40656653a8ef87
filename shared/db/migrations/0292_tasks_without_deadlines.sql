-- Nobody wrote or read when a task's time ends: `retry_at` says when a waiting task is looked at again, and the limits of
-- the watchdog are compared with the time of the last change, so that a limit that is set anew holds at once.
ALTER TABLE tasks DROP COLUMN deadline_at;
