"""Seeds 301 to 310: event service (fine-grained, too), jumbo jobs, builds, pre-processing, and copies of jobs.

In every other one users give every command of the table.
"""

from tests.simulation.seeds import over

test_every_task_ends_and_no_invariant_breaks = over(range(301, 311))
