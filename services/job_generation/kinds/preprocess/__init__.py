"""The pre-processing job of a task, and the way back of the task with what the job returned."""
