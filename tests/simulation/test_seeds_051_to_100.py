"""Seeds 51 to 100."""

from tests.simulation.seeds import over

test_every_task_ends_and_no_invariant_breaks = over(range(51, 101))
