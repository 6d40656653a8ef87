"""The jobs that a chunk was cut into, where they go, and what is left over of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from services.job_generation.policy.values import PlacedJob, Unit

MOST_REASONS = 5


@dataclass
class Placement:
    """Jobs in order of their input, units not used in their order, and why they were not.

    `left_out`: units that no job is ever made of, because a rule of the task says so. `ran_out`: the
    secondary dataset that had no file left for the next job.
    """

    jobs: list[PlacedJob] = field(default_factory=list)
    leftover: list[Unit] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    left_out: list[Unit] = field(default_factory=list)
    ran_out: str = ""

    def note(self, reason: str) -> None:
        """Keep a reason; the first few are told."""
        if len(self.reasons) < MOST_REASONS:
            self.reasons.append(reason)
