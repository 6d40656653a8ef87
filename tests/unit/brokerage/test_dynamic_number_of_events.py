"""A dynamic number of events, from the task's parameters through the decision to the jobs."""

from __future__ import annotations

from typing import Any

import pytest

from services.job_brokerage.policy.production import ProductionJobBrokerage
from services.job_brokerage.policy.request import job_request
from services.job_generation.policy.values import Unit
from services.job_generation.splitting.placing import place
from services.task_definition.tasks.policy.could_run import could_run, typical_job
from services.task_definition.tasks.policy.definition_plan import DefinitionFacts, Refined
from services.task_definition.tasks.policy.refine import refine
from services.task_definition.tasks.policy.task_spec import parse_task
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from shared.brokerage.limits import JobLimits
from shared.brokerage.smallest_job import most_events, smallest_job
from shared.catalogue.port import DatasetFacts
from shared.task.in_effect import rules_of
from shared.task.needs import WorkNeeds
from tests.handlers.task_definition.world import production
from tests.unit.brokerage.test_job_brokerage import ROW
from tests.unit.brokerage.worlds import NOW, a_queue, a_world
from tests.unit.job_generation import made

EVNT = DatasetFacts("mc.evnt", "mc", "dataset", "frozen", 20, 20_000, 20_000)
# 10 s for each event on one core of 10 HS06
DYNAMIC = {
    **ROW, "nucleus": None, "core_count": 1, "ram_count": 1000, "resource_type": "SCORE", "cpu_time": 100,
    "cpu_efficiency": 100, "base_walltime": 0, "chunk_files": 50, "chunk_events": 5000,
}  # fmt: skip


def refined(**changes: Any) -> Refined:
    outcome = refine(parse_task(production(nFilesPerJob=None, **changes)), 7, DefinitionFacts({"mc.evnt": EVNT}))
    assert isinstance(outcome, Refined), outcome
    return outcome


@pytest.mark.parametrize("name", ["minGranularity", "nEventsPerRange"])
def test_the_parameter_cuts_files_into_ranges_and_makes_the_number_of_events_dynamic(name: str) -> None:
    plan = refined(**{name: 100})
    assert plan.split_rule["dynamicNumEvents"] == 100 and name not in plan.split_rule
    assert plan.inputs[0].events_per_unit == 100
    request = job_request({**DYNAMIC, "split_rule": plan.split_rule}, (), JobLimits(), NOW)
    assert request.dynamic_number_of_events and request.job.n_events == 100


def test_files_for_each_job_are_counted_in_ranges() -> None:
    task = production(nFilesPerJob=3, minGranularity=100)
    outcome = refine(parse_task(task), 7, DefinitionFacts({"mc.evnt": EVNT}))
    assert isinstance(outcome, Refined) and outcome.split_rule["nFilesPerJob"] == 30


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"nEventsPerJob": 500}, "nEventsPerJob"), ({"tgtNumEventsPerJob": 500}, "tgtNumEventsPerJob"),
        ({"nEventsPerRange": 50}, "nEventsPerRange"), ({"maxEventsPerJob": 99}, "maxEventsPerJob"),
    ],
)  # fmt: skip
def test_what_would_fix_the_number_of_events_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        parse_task(production(minGranularity=100, nFilesPerJob=None, **changes))
    assert [one.field for one in refused.value.problems] == [field]


def excluded(split_rule: dict[str, Any], **queue: Any) -> str | None:
    """The check and the numbers with which the decision leaves the only queue out."""
    request = job_request({**DYNAMIC, "split_rule": split_rule}, (), JobLimits(), NOW)
    decision = ProductionJobBrokerage().decide(a_world([a_queue("Q", **queue)]), request, 1)
    found = decision.exclusion("Q")
    return None if found is None else f"{found[0].name}: {found[0].text(found[1])}"


def test_only_queues_with_a_mintime_are_used() -> None:
    assert excluded({"dynamicNumEvents": 100}) == "dynamic_number_of_events: 0 s"
    assert excluded({"dynamicNumEvents": 100}, min_time_s=1000) is None
    assert excluded({}) is None, "others need none"


def test_one_range_fits_below_maxtime_and_the_largest_job_reaches_mintime() -> None:
    rule = {"dynamicNumEvents": 100, "maxEventsPerJob": 499}
    assert excluded(rule, min_time_s=100, max_time_s=1000) is None, "a job of one range runs 1000 s"
    assert excluded(rule, min_time_s=100, max_time_s=999) == "walltime_too_long: 1000 s"
    assert excluded(rule, min_time_s=4000) is None, "four whole ranges"
    assert excluded(rule, min_time_s=4001) == "walltime_too_short: 4000 s"
    assert excluded({"dynamicNumEvents": 100}, min_time_s=200_000) is None, "200 ranges"
    assert excluded({"dynamicNumEvents": 100, "nFilesPerJob": 30}, min_time_s=30_001) == "walltime_too_short: 30000 s"


def test_a_task_of_a_dynamic_number_of_events_could_run_only_where_there_is_a_mintime() -> None:
    row = {**DYNAMIC, "split_rule": {"dynamicNumEvents": 100}}
    assert not could_run(a_world([a_queue("Q")]), typical_job(row, 20, 20_000, 20_000, NOW)).chosen
    assert could_run(a_world([a_queue("Q", min_time_s=1)]), typical_job(row, 20, 20_000, 20_000, NOW)).chosen == ("Q",)


def test_the_smallest_job_is_one_range_and_the_largest_is_bounded_by_the_rules() -> None:
    assert smallest_job(rules_of({"dynamicNumEvents": 100, "nFilesPerJob": 30}), 20, 20_000, 20_000).n_events == 100
    assert most_events(rules_of({"nFilesPerJob": 30})) == 0
    assert most_events(rules_of({"dynamicNumEvents": 100, "nMaxFilesPerJob": 7})) == 700


def ranges(n_files: int, missing: tuple[int, ...] = ()) -> list[Unit]:
    """Files of 500 events in ranges of 100."""
    return [
        Unit(
            number, f"f{number // 5}", 1000, 100, number % 5 * 100, number % 5 * 100 + 99, first_event=number * 100 + 1
        )
        for number in range(n_files * 5)
        if number not in missing
    ]


@pytest.mark.parametrize(
    ("rule", "max_time_s", "missing", "expected"),
    [
        ({}, 3999, (), [3, 3, 3, 1]),  # 1000 s for each range
        ({}, 100_000, (), [10]),
        ({"maxEventsPerJob": 499}, 100_000, (), [4, 4, 2]),
        ({"nFilesPerJob": 7}, 100_000, (), [7, 3]),
        ({}, 100_000, (2,), [2, 7]),  # events of a job follow each other
        ({}, 100_000, (5,), [5, 4]),
    ],
)
def test_a_job_takes_as_many_ranges_as_its_queue_allows(
    rule: dict[str, Any], max_time_s: int, missing: tuple[int, ...], expected: list[int]
) -> None:
    needs = WorkNeeds(cpu_time_hs06_s_per_event=100, cpu_efficiency=1.0, base_walltime_s=0)
    task = made.a_task({"dynamicNumEvents": 100, **rule}, needs=needs)
    queue = made.a_queue(max_time_s=max_time_s, core_power_hs06=10)
    result = place(task, ranges(2, missing), [], [queue], scout=False, max_jobs=100, seed=1)
    assert [len(one.job.master) for one in result.jobs] == expected


def test_scouts_of_such_a_task_take_one_range_each() -> None:
    task = made.a_task({"dynamicNumEvents": 100, "nFilesPerJob": 7})
    result = place(task, ranges(1), [], [made.a_queue()], scout=True, max_jobs=100, seed=1)
    assert [len(one.job.master) for one in result.jobs] == [1] * 5
    assert rules_of({"dynamicNumEvents": 100}).granularity == 100
