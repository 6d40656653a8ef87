"""Which tasks get and lose jumbo jobs (JEDI: Jumbo job switcher)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.jumbo_watchdog.policy.switch import JumboLimits, JumboTask, boosts, decide, kicks

LARGE = JumboTask(
    task_id=1, use_jumbo=None, priority=100, remaining_events=2_000_000, has_place=True, in_file_positions=True
)


def switched(tasks: list[JumboTask], limits: JumboLimits | None = None) -> list[tuple[int, bool]]:
    return [(switch.task_id, switch.enable) for switch in decide(tasks, limits or JumboLimits()).switches]


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
        ({"has_place": False}, False),
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
    (switch,) = decide([LARGE], JumboLimits()).switches
    assert "2000000 events remain" in switch.reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, "on: 2000000 events remain, the most of all eligible tasks; 0 of 1 tasks and 0 of 500000 events had jumbo"
         " jobs"),
        ({"use_jumbo": "R"}, "on: 2000000 events remain, not fewer than the limit of 100000"),
        ({"use_jumbo": "R", "remaining_events": 99_999}, "off: 99999 events remain, fewer than the limit of 100000"),
        ({"use_jumbo": "D"}, "off: jumbo jobs were switched off, and are not switched on again"),
        ({"remaining_events": 1_000_000}, "off: 1000000 events remain, not more than the limit of 1000000"),
        ({"priority": 500}, "off: priority 500, not below 500"),
        ({"has_place": False}, "off: no online queue that runs jumbo jobs has its software"),
        ({"site": "CERN"}, "off: it is sent to CERN"),
    ],
)  # fmt: skip
def test_why_a_task_was_chosen_or_not_is_told(change: dict[str, object], reason: str) -> None:
    assert decide([replace(LARGE, **change)], JumboLimits()).reasons == {1: reason}


def test_who_comes_too_late_is_told_by_what() -> None:
    later = replace(LARGE, task_id=2, remaining_events=1_500_000)
    assert decide([later, LARGE], JumboLimits()).reasons[2] == (
        "off: 1 of 1 tasks and 2000000 of 500000 events have jumbo jobs already, of tasks with as many events left or"
        " more"
    )


DONE = replace(LARGE, use_jumbo="R", total_events=1000, remaining_events=50, files_left=499, priority=100)


@pytest.mark.parametrize(
    ("change", "priority"),
    [
        ({}, 900),
        ({"remaining_events": 51}, None),
        ({"files_left": 500}, None),
        ({"priority": 899}, 900),
        ({"priority": 900}, None),
        ({"use_jumbo": None}, None),
        ({"use_jumbo": "D"}, 900),
        ({"use_jumbo": "D", "remaining_events": 51}, 500),
        ({"use_jumbo": "D", "remaining_events": 51, "priority": 499}, 500),
        ({"use_jumbo": "D", "remaining_events": 51, "priority": 500}, None),
        ({"total_events": 0}, None),
    ],
)
def test_tasks_that_are_nearly_done_or_lost_their_jumbo_jobs_go_before_others(
    change: dict[str, object], priority: int | None
) -> None:
    found = boosts([replace(DONE, **change)], JumboLimits())
    assert [one.priority for one in found] == ([] if priority is None else [priority])


def test_parameters_say_from_when_on_and_to_what() -> None:
    limits = JumboLimits(percent_to_boost=96, max_files_to_boost=10, priority_when_disabled=300)
    assert boosts([DONE, replace(DONE, remaining_events=40)], limits) == []
    (near,) = boosts([replace(DONE, remaining_events=40, files_left=9)], limits)
    assert near.reason == (
        "nearly done: 960 of 1000 events are processed (from 96 % on), 9 files are left (fewer than 10)"
    )
    (off,) = boosts([replace(DONE, use_jumbo="D")], limits)
    assert (off.priority, off.reason) == (300, "its jumbo jobs are off")


LOST = replace(LARGE, use_jumbo="R", status="pending", ready_ranges=1)


@pytest.mark.parametrize(
    ("change", "kicked"),
    [
        ({}, True),
        ({"status": "running"}, True),
        ({"use_jumbo": "P"}, True),
        ({"use_jumbo": "L"}, False),
        ({"use_jumbo": "W"}, False),
        ({"n_active_jumbo_jobs": 1}, False),
        ({"ready_ranges": 0}, False),
        ({"status": "throttled"}, False),
    ],
)
def test_a_task_whose_jumbo_jobs_are_all_gone_is_looked_at_while_events_are_left(
    change: dict[str, object], kicked: bool
) -> None:
    assert kicks([replace(LOST, **change)]) == ([1] if kicked else [])
