"""JEDI: Jumbo jobs and co-jumbo jobs; which queues get one, and what column USEJUMBO says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as draw

from services.job_generation.kinds.event_service.policy.endings import ConsumerEnd, SetState, judge, waits_alone
from services.job_generation.kinds.jumbo.policy import JumboPlan, JumboQueue, JumboWork, is_close_to_done, plan
from services.task_definition.tasks.policy.task_spec import parse_task
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from shared.task.in_effect import rules_of
from tests.handlers.task_definition.world import production

A, B, C = JumboQueue("A", "s"), JumboQueue("B", "s"), JumboQueue("C", "t")


def planned(*queues: JumboQueue, n_ranges: int = 100, had: bool = False, per_task: int = 1, **more: int) -> JumboPlan:
    limits = {"per_site": 1, "most_in_vain": 3, **more}
    return plan(queues, JumboWork(n_ranges, had), per_task=per_task, **limits)


@pytest.mark.parametrize(
    ("found", "queues", "flag"),
    [
        (planned(A, B, C), ("A",), "R"),
        (planned(A, B, C, per_task=2), ("A", "C"), "R"),
        (planned(A, B, C, per_task=3, per_site=2), ("A", "B", "C"), "R"),
        (planned(A, B, C, per_task=9), ("A", "C"), "L"),
        (planned(JumboQueue("A", "s", n_live=1), per_task=2, per_site=9), (), "L"),  # one for each queue
        (planned(JumboQueue("A", "s", n_live=1), B, per_task=2), (), "L"),  # one for each site
        (planned(JumboQueue("A", "s", min_ranges=101)), (), "W"),
        (planned(JumboQueue("A", "s", min_ranges=100)), ("A",), "R"),
        (planned(A, n_ranges=0), (), "W"),
        (planned(A, n_ranges=0, had=True), (), "P"),
        (planned(n_ranges=5, had=True), (), "L"),
        (planned(JumboQueue("A", "s", n_in_vain=3), C), ("C",), "R"),
        (planned(JumboQueue("A", "s", n_in_vain=3)), (), "D"),
        (planned(JumboQueue("A", "s", n_in_vain=2)), ("A",), "R"),
        (planned(JumboQueue("A", "s", n_live=1, n_in_vain=3)), (), "R"),
    ],
)  # fmt: skip
def test_one_jumbo_job_for_each_queue_within_the_limits_of_task_and_site(
    found: JumboPlan, queues: tuple[str, ...], flag: str
) -> None:
    assert (found.queues, found.use_jumbo) == (queues, flag), found.reason


@pytest.mark.parametrize(
    ("n_finished", "n_files", "percent", "close"),
    [(94, 100, 95, False), (95, 100, 95, True), (0, 0, 95, False), (1, 1, 95, True), (100, 100, 101, False)],
)
def test_a_task_is_close_to_done_by_its_finished_files(
    n_finished: int, n_files: int, percent: float, close: bool
) -> None:
    assert is_close_to_done(n_finished, n_files, percent) == close


STATES = draw.builds(
    JumboQueue, queue=draw.sampled_from("ABCDEFGH"), site=draw.sampled_from("stu"), min_ranges=draw.integers(0, 50),
    n_live=draw.integers(0, 1), n_in_vain=draw.integers(0, 4),
)  # fmt: skip


@given(
    draw.lists(STATES, max_size=8, unique_by=lambda one: one.queue), draw.integers(0, 60), draw.integers(1, 6),
    draw.integers(1, 3),
)  # fmt: skip
def test_no_queue_site_or_task_has_more_jumbo_jobs_than_it_may(
    queues: list[JumboQueue], n_ranges: int, per_task: int, per_site: int
) -> None:
    found = plan(queues, JumboWork(n_ranges), per_task=per_task, per_site=per_site, most_in_vain=3)
    chosen = [one for one in queues if one.queue in found.queues]
    n_live = sum(one.n_live for one in queues)
    assert not any(one.n_live or one.n_in_vain >= 3 or n_ranges < max(1, one.min_ranges) for one in chosen)
    assert n_live + len(chosen) <= max(per_task, n_live)
    for site in {one.site for one in chosen}:
        assert (
            sum(one.n_live for one in queues if one.site == site) + sum(one.site == site for one in chosen) <= per_site
        )


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (ConsumerEnd("succeeded", 0), ("merging", "es_wait", "wait")),
        (ConsumerEnd("succeeded", 2), ("merging", "es_wait", "wait")),
        (ConsumerEnd("pilot_failed", 0, 1), ("failed", "pilot_failed", "retry")),
        (ConsumerEnd("pilot_failed", 0, 3), ("failed", "pilot_failed", "fail")),
        (ConsumerEnd("unused", 0, 3), ("closed", "es_unused", "retry")),
        (ConsumerEnd("killed", 0, 1), ("cancelled", None, "retry")),
    ],
)
def test_somebody_of_a_set_waits_for_the_ranges_that_a_jumbo_job_has(end: ConsumerEnd, expected: Any) -> None:
    found = waits_alone(end, judge(end, SetState(n_processing=3), most_attempts=3), 3)
    assert (found.status, found.sub_status, found.next) == expected


def test_the_parameters_are_rules_of_job_generation_and_switch_jumbo_jobs_on() -> None:
    spec = parse_task(production(nEventsPerWorker=10, nJumboJobs=2, maxJumboPerSite=3))
    rules = rules_of(spec.split_rule())
    assert (rules.n_jumbo_jobs, rules.n_jumbo_jobs_per_site) == (2, 3)
    assert spec.columns()["use_jumbo"] == "W"


@pytest.mark.parametrize("given", [{}, {"nJumboJobs": 1, "site": "CERN"}, {"maxJumboPerSite": 2}])
def test_jumbo_jobs_stay_off_without_their_number_and_with_a_site(given: dict[str, Any]) -> None:
    assert parse_task(production(nEventsPerWorker=10, **given)).columns()["use_jumbo"] is None


@pytest.mark.parametrize(
    "given", [{"nJumboJobs": 1}, {"maxJumboPerSite": 1}, {"nEventsPerWorker": 5, "nJumboJobs": -1}]
)
def test_jumbo_jobs_without_event_service_or_of_no_number_are_refused_by_name(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask) as refused:
        parse_task(production(**given))
    assert {one.field for one in refused.value.problems} <= {"nJumboJobs", "maxJumboPerSite"}
