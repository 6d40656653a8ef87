"""Jobs that process the task's input: the steps make, count and settle them."""

from __future__ import annotations

from services.job_generation.kinds.room import BuiltKind
from services.job_generation.specification.kind_of_job import NORMAL


class NormalJobs(BuiltKind):
    """The plain path, to which other kinds add."""

    job = NORMAL
