"""What job_dispatch answers over HTTP: one module for each path prefix, and how bodies are read."""
