"""What the desk answers over HTTP: one module for each path prefix."""
