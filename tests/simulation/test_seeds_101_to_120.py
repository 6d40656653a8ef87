"""Seeds 101 to 120."""

from tests.simulation.seeds import over

test_every_task_ends_and_no_invariant_breaks = over(range(101, 121))
