"""Which tasks get and lose jumbo jobs (JEDI: Jumbo job switcher)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.jumbo_watchdog.policy.switch import JumboLimits, JumboTask, decide

RELEASE = "Athena-22.0.1"
LARGE = JumboTask(
    task_id=1, use_jumbo=None, priority=100, remaining_events=2_000_000, software=RELEASE, in_file_positions=True
)


def switched(tasks: list[JumboTask], limits: JumboLimits | None = None) -> list[tuple[int, bool]]:
    return [(switch.task_id, switch.enable) for switch in decide(tasks, {RELEASE}, limits or JumboLimits())]


def test_defaults_follow_from_each_other() -> None:
    limits = JumboLimits(max_tasks=3)
    assert (limits.enable_from, limits.events_wanted) == (1_000_000, 1_500_000)
    assert JumboLimits(min_events_disable=5, max_tasks=3).events_wanted == 75
    assert JumboLimits(min_events_enable=7, max_tasks=3).events_wanted == 10  # integer division
    assert JumboLimits(max_events=9).events_wanted == 9


def test_the_task_with_the_most_remaining_events_is_enabled() -> None:
    larger = replace(LARGE, task_id=2, remaining_events=3_000_000)
    assert switched([LARGE, larger]) == [(2, True)]


def test_of_two_equal_tasks_the_older_is_enabled() -> None:
    assert switched([replace(LARGE, task_id=9), LARGE]) == [(1, True)]


@pytest.mark.parametrize(
    ("change", "eligible"),
    [
        ({}, True),
        ({"remaining_events": 1_000_000}, False),
        ({"remaining_events": 1_000_001}, True),
        ({"priority": 499}, True),
        ({"priority": 500}, False),
        ({"software": "Athena-21.0.0"}, False),
        ({"site": "CERN"}, False),
        ({"use_jumbo": "D"}, False),
        ({"in_file_positions": False}, False),
        ({"in_file_positions": False, "files_per_job": 1}, True),
        ({"in_file_positions": False, "files_per_job": 2}, False),
        ({"in_file_positions": False, "events_per_job": 100, "events_per_file": 1000}, True),
        ({"in_file_positions": False, "events_per_job": 1000, "events_per_file": 1000}, False),
        ({"in_file_positions": False, "events_per_file": 1000}, False),
    ],
)
def test_only_large_calm_positional_tasks_with_software_at_a_jumbo_queue_are_eligible(
    change: dict[str, object], eligible: bool
) -> None:
    assert switched([replace(LARGE, **change)]) == ([(1, True)] if eligible else [])


def test_enabling_goes_on_until_there_are_enough_tasks() -> None:
    tasks = [replace(LARGE, task_id=number, remaining_events=1_500_000) for number in range(1, 6)]
    limits = JumboLimits(max_tasks=3, max_events=10**9)
    assert switched(tasks, limits) == [(1, True), (2, True), (3, True)]
    enabled = [replace(tasks[0], use_jumbo="R"), *tasks[1:]]
    assert switched(enabled, limits) == [(2, True), (3, True)]


def test_enabling_stops_when_there_are_enough_events() -> None:
    tasks = [replace(LARGE, task_id=number, remaining_events=1_500_000) for number in range(1, 6)]
    assert switched(tasks, JumboLimits(max_tasks=5)) == [(1, True), (2, True)]  # 2.5 million wanted


@pytest.mark.parametrize("flag", ["W", "R", "P", "L"])
def test_a_task_with_few_remaining_events_is_disabled_and_makes_room(flag: str) -> None:
    small = replace(LARGE, task_id=7, use_jumbo=flag, remaining_events=99_999)
    assert switched([small]) == [(7, False)]
    assert switched([small, LARGE]) == [(7, False), (1, True)]
    assert switched([replace(small, remaining_events=100_000), LARGE]) == []


def test_a_task_that_was_disabled_stays_disabled() -> None:
    assert switched([replace(LARGE, use_jumbo="D", remaining_events=10)]) == []


def test_reasons_say_the_numbers() -> None:
    (switch,) = decide([LARGE], {RELEASE}, JumboLimits())
    assert "2000000 events remain" in switch.reason
