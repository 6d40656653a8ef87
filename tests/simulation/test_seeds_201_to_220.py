"""Seeds 201 to 220: users give every command of the table, and input changes in every way."""

from tests.simulation.seeds import over

test_every_task_ends_and_no_invariant_breaks = over(range(201, 221))
