"""What all seeds of one process have in common ends with it."""

from collections.abc import Iterator

import pytest

from tests.simulation.running import leave


@pytest.fixture(scope="session", autouse=True)
def stage() -> Iterator[None]:
    yield
    leave()
