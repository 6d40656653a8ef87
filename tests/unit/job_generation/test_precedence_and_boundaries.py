"""Which split rule decides when several are given, and boundaries that no job may cross or split."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.job_generation.policy.values import Unit
from services.task_definition.tasks.policy.task_spec import parse_task
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from shared.brokerage.smallest_job import smallest_job
from shared.task.in_effect import PRECEDENCE, BadRule, in_precedence, rules_of
from shared.task.needs import WorkNeeds
from tests.handlers.task_definition.world import production
from tests.unit.job_generation.made import GB, a_queue, a_task, some_units
from tests.unit.job_generation.test_splitting import placed, sizes


@pytest.mark.parametrize(
    ("rule", "jobs"),
    [
        # 4 files of 100 events and 3 GB; 1 GB for a job would be one file in each
        ({"nEventsPerJob": 200, "nGBPerJob": 1}, [2, 2]),
        ({"nEventsPerJob": 300, "nFilesPerJob": 1}, [3, 1]),
        ({"nEventsPerJob": 300, "nEventsPerInputFile": 100, "nFilesPerJob": 1}, [3, 1]),
        ({"nFilesPerJob": 4, "nGBPerJob": 1}, [4]),
        ({"nFilesPerJob": 4, "tgtNumEventsPerJob": 100}, [4]),
        ({"nFilesPerJob": 4, "tgtMaxOutputForNG": 1}, [4]),
        ({"nGBPerJob": 9, "tgtNumEventsPerJob": 100}, [3, 1]),
        ({"nGBPerJob": 12, "tgtMaxOutputForNG": 1}, [4]),
        ({"tgtNumEventsPerJob": 300, "tgtMaxOutputForNG": 1}, [3, 1]),
        ({"tgtMaxOutputForNG": 1}, [2, 2]),
        ({"nEventsPerJob": 400, "nMaxFilesPerJob": 3}, [3, 1]),  # not in the list: holds beside any
    ],
)
def test_the_first_split_rule_that_is_set_disables_the_later_ones(rule: dict[str, Any], jobs: list[int]) -> None:
    needs = WorkNeeds(output_bytes_per_event=GB / 200)  # 0.5 GB for each file
    units = some_units(4, size_bytes=3 * GB - GB // 2)
    assert sizes(placed(a_task(rule, needs=needs), units, a_queue(max_work_dir_mb=10**6))) == jobs


@given(
    st.dictionaries(
        st.sampled_from([*PRECEDENCE, "n_events_per_input_file", "n_max_files_per_job"]), st.integers(1, 50)
    )
)
def test_what_is_in_effect_stays_so_however_often_it_is_asked(rule: dict[str, int]) -> None:
    found = in_precedence(rule)
    assert in_precedence(found) == found
    by_user = [name for name in PRECEDENCE if found.get(name) and rule.get(name) == found[name]]
    first = next((name for name in PRECEDENCE if rule.get(name)), None)
    assert by_user[:1] == ([first] if first else [])
    assert {name for name in PRECEDENCE if found.get(name)} <= {first, "n_files_per_job"}


def test_brokerage_estimates_the_job_that_the_rules_in_effect_make() -> None:
    rule = {"nEventsPerJob": 200, "nFilesPerJob": 5}
    assert smallest_job(rules_of(rule), 10, 1000, 10_000).n_files == 2
    assert smallest_job(rules_of({"nFilesPerJob": 5, "tgtNumEventsPerJob": 10}), 10, 1000, 10_000).n_events == 500


def test_a_disabled_rule_is_still_checked() -> None:
    with pytest.raises(BadRule, match="nGBPerJob"):
        rules_of({"nFilesPerJob": 3, "nGBPerJob": "many"})


def of_boundaries(*boundaries: int | None, size_bytes: int = 1000) -> list[Unit]:
    return [Unit(n, f"f{n}", size_bytes, 10, boundary_id=one) for n, one in enumerate(boundaries)]


@pytest.mark.parametrize("group", [3, 4])
@pytest.mark.parametrize(
    "rule", [{}, {"nFilesPerJob": 2}, {"nEventsPerJob": 10}, {"nMaxFilesPerJob": 1}, {"nGBPerJob": 1}]
)
def test_a_boundary_is_one_job_whatever_the_other_rules_say(group: int, rule: dict[str, Any]) -> None:
    task = a_task({"groupBoundaryID": group, **rule})
    result = placed(task, of_boundaries(1, 1, 1, 2, 3, 3), scout=False)
    assert [[unit.boundary_id for unit in one.job.master] for one in result.jobs] == [[1, 1, 1], [2], [3, 3]]
    assert sizes(placed(task, of_boundaries(1, 1, 1, 2), scout=True)) == [3, 1]


@pytest.mark.parametrize(("group", "expected"), [(1, [2, 1, 1]), (2, [2, 1, 1]), (3, [3, 1]), (4, [3, 1])])
def test_boundaries_of_group_1_and_2_may_be_split(group: int, expected: list[int]) -> None:
    task = a_task({"groupBoundaryID": group, "nFilesPerJob": 2})
    assert sizes(placed(task, of_boundaries(1, 1, 1, 2))) == expected


def test_files_of_a_boundary_that_lie_apart_are_in_one_job() -> None:
    result = placed(a_task({"groupBoundaryID": 3}), of_boundaries(1, 2, 1, None, 2, None))
    assert [[unit.file_id for unit in one.job.master] for one in result.jobs] == [[0, 2], [1, 4], [3, 5]]


def test_a_boundary_that_does_not_fit_is_left_over_whole_with_the_reason() -> None:
    units = of_boundaries(1, 1, 2, 2, 2, 3, size_bytes=4 * GB)
    result = placed(a_task({"groupBoundaryID": 3}), units, a_queue(max_work_dir_mb=10 * 1024))
    assert [one.job.master[0].boundary_id for one in result.jobs] == [1, 3]
    assert [unit.boundary_id for unit in result.leftover] == [2, 2, 2]
    assert "boundary 2 (3 units from f2 on) fits no queue" in result.reasons[0]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.integers(1, 5)), max_size=30),
    st.sampled_from([3, 4]),
    st.booleans(),
    st.integers(1, 30),
    st.integers(0, 12 * 1024),
    st.integers(0, 2**60),
)
def test_no_boundary_is_ever_split(
    boundaries: list[int | None], group: int, scout: bool, max_jobs: int, room_mb: int, seed: int
) -> None:
    units = of_boundaries(*boundaries, size_bytes=GB)
    task = a_task({"groupBoundaryID": group, "nFilesPerJob": 2})
    queues = (a_queue("A", max_work_dir_mb=room_mb), a_queue("B", max_work_dir_mb=4 * 1024))
    result = placed(task, units, *queues, scout=scout, max_jobs=max_jobs, seed=seed)
    assert sorted(
        [unit.file_id for one in result.jobs for unit in one.job.master] + [unit.file_id for unit in result.leftover]
    ) == list(range(len(units)))
    for number in {one for one in boundaries if one is not None}:
        whole = boundaries.count(number)
        held = [sum(unit.boundary_id == number for unit in one.job.master) for one in result.jobs]
        held.append(sum(unit.boundary_id == number for unit in result.leftover))
        assert [count for count in held if count] == [whole]


def test_a_group_of_boundaries_is_accepted_from_1_to_4_and_3_needs_closed_input() -> None:
    assert parse_task(production(groupBoundaryID=4)).split_rule()["groupBoundaryID"] == 4
    for changes in ({"groupBoundaryID": 5}, {"groupBoundaryID": 3, "runUntilClosed": True}):
        with pytest.raises(InvalidTask, match="groupBoundaryID") as refused:
            parse_task(production(**changes))
        assert [one.field for one in refused.value.problems] == ["groupBoundaryID"]
    with pytest.raises(BadRule, match="groupBoundaryID: 7 is not allowed"):
        rules_of({"groupBoundaryID": 7})
