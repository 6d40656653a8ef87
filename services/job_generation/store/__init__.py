"""All SQL of job_generation: a module for each noun, its statements beside it."""
