"""The invariants, as SQL: each query of `store/invariants/*.sql` returns the rows that break it.

Each row has a sentence for people.

`run_checks` reads in slices of tasks, so that it can run beside a working system: what it demands holds at every
commit, and no snapshot is older than a minute. `orrery check` (through the watchdog's HTTP interface) and the
simulation use the same queries.
"""

from services.watchdog.checking.invariants import CHECKS, INVARIANTS, InvariantCheck
from services.watchdog.checking.run import TaskSlices, Violation, general_checks, run_checks

__all__ = ["CHECKS", "INVARIANTS", "InvariantCheck", "TaskSlices", "Violation", "general_checks", "run_checks"]
