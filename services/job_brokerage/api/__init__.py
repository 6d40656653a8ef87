"""What job_brokerage answers over HTTP: one module for each path prefix."""
