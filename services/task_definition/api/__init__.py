"""What task_definition answers over HTTP: one module for each path prefix."""
