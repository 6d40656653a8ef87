"""Points of a hyper-parameter optimisation, and when the next of them are there.

Source: PanDA client, phpo (nPointsPerIteration, minUnevaluatedPoints); iDDS, HyperParameterOptimization.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PointSearch:
    """The points of a task: how many at most, how many there are, and who proposes them.

    `per_generation` None: an optimiser adds them by their numbers while the task runs. Otherwise they are numbered from
    1 on, so many in a generation. `n_jobs` were made, those not counted that were taken back before they ran.
    """

    most_points: int
    n_points: int
    per_generation: int | None
    min_unevaluated: int = 0
    n_jobs: int = 0

    @property
    def n_to_come(self) -> int:
        """Points that are not there yet."""
        return max(0, self.most_points - self.n_points)

    def next_points(self, n_unevaluated: int) -> int:
        """How many points follow now, while so many are not evaluated.

        A generation follows when fewer than `min_unevaluated` are left, with 0 when none is. It has as many new points
        as make a generation together with those.

        Example: 10 points, 4 in a generation, 1 unevaluated at least: 3 at first, 3 more when the last one is reported.
        """
        if self.per_generation is None or n_unevaluated >= max(1, self.min_unevaluated):
            return 0
        return min(max(1, self.per_generation - self.min_unevaluated), self.n_to_come)
