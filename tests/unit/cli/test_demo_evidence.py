"""What the demonstration says that it saw, and that it fails for what it did not see."""

from __future__ import annotations

from typing import Any

import pytest

from services.cli.demo.evidence import sights_of
from services.cli.demo.verdict import DemoResult


def tasks(**without: bool) -> list[dict[str, Any]]:
    """Details of tasks that show everything, but for what is left out."""
    return [
        {
            "job_types": {
                "scout": {"finished": 0 if without.get("scouts") else 10, "failed": 1},
                "normal": {"finished": 0 if without.get("avalanche") else 90},
                "merge": {"finished": 0 if without.get("merging") else 9},
            },
            "retry_actions": {} if without.get("memory") else {"increase_memory": 3, "increase_memory_xtimes": 1},
        },
        {"job_types": {"build": {"finished": 0 if without.get("build") else 2}, "normal": {"finished": 7}}},
        {"job_types": {"preprocess": {"finished": 0 if without.get("preprocessing") else 1, "failed": 1}}},
        {
            "job_types": {"merge": {"finished": 2}, "jumbo": {"finished": 1}},
            "event_ranges": {"merged": 0 if without.get("events") else 40, "failed": 2},
            "event_ranges_of_jumbo_jobs": {"merged": 0 if without.get("jumbo") else 15, "failed": 0},
        },
    ]


def test_each_kind_of_work_has_its_figure() -> None:
    assert {one.name: one.figure for one in sights_of(tasks())} == {
        "scouts": 10, "avalanche": 1, "memory increase": 4, "merging": 9, "pre-processing": 1, "build": 2,
        "event service": 40, "jumbo job": 15,
    }  # fmt: skip
    assert DemoResult([], sights=sights_of(tasks())).problems == []


@pytest.mark.parametrize(
    ("left_out", "name"),
    [
        ("avalanche", "avalanche"), ("merging", "merging"), ("memory", "memory increase"), ("build", "build"),
        ("preprocessing", "pre-processing"),
        ("events", "event service"), ("jumbo", "jumbo job"),
    ],
)  # fmt: skip
def test_what_was_not_seen_is_a_problem_that_names_it(left_out: str, name: str) -> None:
    result = DemoResult([], sights=sights_of(tasks(**{left_out: True})))
    [problem] = result.problems
    assert problem.startswith(f"{name} was not seen")
    assert result.as_dict()["success"] is False


def test_merge_jobs_of_event_service_are_not_merging_of_outputs() -> None:
    assert {one.name: one.figure for one in sights_of(tasks()[3:])}["merging"] == 0
