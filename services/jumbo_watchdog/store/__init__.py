"""All SQL of the jumbo watchdog, its statements beside it."""
