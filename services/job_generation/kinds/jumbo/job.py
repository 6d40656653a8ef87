"""What jumbo jobs differ in (JEDI: Jumbo jobs)."""

from __future__ import annotations

from services.job_generation.kinds.event_service.job import OfJobSet


class Jumbo(OfJobSet):
    """Processes ranges of all sets, beside the consumers of these."""

    name = "jumbo"
    belongs_to_a_set = False


JUMBO = Jumbo()
