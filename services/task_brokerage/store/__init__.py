"""All SQL of task_brokerage: a module for each noun, its statements beside it."""
