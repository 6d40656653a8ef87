"""The test that a file of seeds consists of: several files, because a file is run by one process."""

from collections.abc import Callable, Iterable

import pytest

from tests.drawn import TENTH
from tests.simulation.running import run
from tests.simulation.workload import of_seed


def over(seeds: Iterable[int]) -> Callable[[int], None]:
    """A push runs a tenth of the seeds. A failure names its seed, its last steps, and how to replay it."""
    drawn = [pytest.param(seed, marks=pytest.mark.drawn(seed, TENTH)) for seed in seeds]

    @pytest.mark.simulation
    @pytest.mark.timeout(300)
    @pytest.mark.parametrize("seed", drawn)
    def test_every_task_ends_and_no_invariant_breaks(seed: int) -> None:
        assert len(run(seed).statuses) == len(of_seed(seed).tasks)

    return test_every_task_ends_and_no_invariant_breaks
