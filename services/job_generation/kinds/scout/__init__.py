"""Scouts: the first jobs of a task, which measure what the others need (JEDI: Using scout jobs)."""
