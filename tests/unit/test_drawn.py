"""Which of many like tests a push runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.drawn import TENTH, runs_at


def like(*marks: pytest.MarkDecorator) -> Any:
    """A test with these marks."""
    return SimpleNamespace(
        iter_markers=lambda name: [mark.mark for mark in marks if mark.name == name],
        get_closest_marker=lambda name: next((mark for mark in marks if mark.name == name), None),
    )


def test_each_seed_is_run_by_one_of_ten_pushes_in_a_row() -> None:
    for seed in range(1, 51):
        item = like(pytest.mark.drawn(seed, TENTH))
        assert sum(runs_at(commit, item) for commit in range(100, 110)) == 1


def test_a_test_without_a_mark_runs_at_each_push_and_one_of_the_night_at_none() -> None:
    assert all(runs_at(commit, like()) for commit in range(5))
    assert not any(runs_at(commit, like(pytest.mark.night)) for commit in range(5))
