"""Seeds 1 to 50."""

from tests.simulation.seeds import over

test_every_task_ends_and_no_invariant_breaks = over(range(1, 51))
