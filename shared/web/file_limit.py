"""How many connections a process may have open: a grid's pilots come all at once after a restart."""

from __future__ import annotations

import resource


def raise_file_limit() -> int:
    """As many open files as the system allows this process; how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # some systems say "unlimited" and refuse it
            return soft
    return hard
