"""All SQL of task_definition: a module for each noun, its statements beside it."""
