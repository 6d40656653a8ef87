"""How far a task is, as people see it: in whole percent."""

from __future__ import annotations


def progress_percent(n_files: int, n_finished: int) -> int:
    """Whole percent of the input processed, rounded down so that 100 means all of it.

    Example: 2 of 3 files are 66.
    """
    return 0 if n_files <= 0 else 100 * min(n_finished, n_files) // n_files


def failure_rate_percent(n_finished: int, n_failed: int) -> int:
    """Percent of jobs that failed among those that finished or failed (JEDI, FAILURERATE).

    Example: 9 finished and 3 failed jobs are 25, although all input was processed in the end. Jobs that were closed or
    cancelled did not fail: leaving them out is the choice taken here.
    """
    ended = n_finished + n_failed
    return 0 if ended <= 0 else round(100 * n_failed / ended)
