"""All SQL of job_brokerage: a module for each noun, its statements beside it."""
