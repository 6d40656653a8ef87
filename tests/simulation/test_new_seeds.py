"""Seeds that nobody has run before: thirty for each day, of every family in turn. `make night` runs them."""

from datetime import UTC, datetime

import pytest

from tests.simulation.seeds import over
from tests.simulation.workload import NEW_SEEDS

PER_DAY = 30
FIRST = NEW_SEEDS + datetime.now(UTC).toordinal() * PER_DAY

pytestmark = pytest.mark.night
test_every_task_ends_and_no_invariant_breaks = over(range(FIRST, FIRST + PER_DAY))
