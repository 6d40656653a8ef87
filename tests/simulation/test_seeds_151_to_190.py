"""Seeds 151 to 190."""

from tests.simulation.seeds import over

test_every_task_ends_and_no_invariant_breaks = over(range(151, 191))
