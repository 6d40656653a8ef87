"""What job_generation answers over HTTP: one module for each path prefix."""
