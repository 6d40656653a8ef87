"""What the watchdog answers over HTTP: one module for each path prefix."""
