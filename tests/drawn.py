"""Which of many like tests a push runs: one of so many, drawn by the commit. `make night` runs all of them.

A test with the mark `drawn(nth, of)` runs at those commits whose number, divided by `of`, leaves the remainder of
`nth`; one with the mark `night` at none. A test that is named with `::` runs always.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from tests import servers

#: of so many seeds of the simulation a push runs one
TENTH = 10
#: of two ways to the same end a push goes one
HALF = 2
#: of so many long stories of published programs a push runs one, beside plain jobs of the published pilot
THIRD = 3


def one_of_two(first: str, second: str) -> list[Any]:
    """Two parameters of which a push takes one, by turns."""
    return [pytest.param(one, marks=pytest.mark.drawn(nth, HALF)) for nth, one in enumerate((first, second))]


@cache
def commit_number() -> int:
    """A number that each commit has; 0 where there is no repository."""
    told = subprocess.run(
        ["git", "rev-parse", "--verify", "HEAD"], cwd=servers.ROOT, capture_output=True, text=True, check=False
    )
    return int(told.stdout.strip()[:12], 16) if told.returncode == 0 else 0


def runs_at(commit: int, item: pytest.Item) -> bool:
    """Whether a push of this commit runs a test."""
    marks = [mark.args for mark in item.iter_markers("drawn")]
    return item.get_closest_marker("night") is None and all(commit % of == nth % of for nth, of in marks)


def of_push(config: pytest.Config, items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests that are run, and those that are left for the night."""
    if config.getoption("--night") or any("::" in argument for argument in config.args):
        return list(items), []
    run = [item for item in items if runs_at(commit_number(), item)]
    kept = set(run)
    return run, [item for item in items if item not in kept]
