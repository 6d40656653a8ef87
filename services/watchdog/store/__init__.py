"""All SQL of the watchdog: a module for each noun, its statements beside it."""
