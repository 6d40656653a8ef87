"""All SQL of job_dispatch: a module for each noun, its statements beside it."""
