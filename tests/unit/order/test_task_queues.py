"""The priorities of task queues: the worked examples and formulas of the documents, and what always holds."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.order.cpu_segments import CPU_SEGMENTS_S, cpu_segment_s, segments_of
from shared.order.identity import TaskQueueIdentity, priority_class, real_priority
from shared.order.task_queues import (
    Corrections,
    GroupProperties,
    TaskQueuePriority,
    WaitingQueue,
    consolidated,
    prioritised,
)

VO = "example"


def queue(
    number: int,
    user: str = "ann",
    group: str = "analysis",
    *,
    n_jobs: dict[int, int] | None = None,
    segment_s: int = 360,
    **sets: tuple[str, ...],
) -> WaitingQueue:
    # as a rule each queue has tags of its own, so that none are alike but for their sites
    sets.setdefault("tags", (f"tag{number}",))
    return WaitingQueue(number, TaskQueueIdentity(VO, user, group, segment_s, **sets), n_jobs or {1: 1})


def priorities(*queues: WaitingQueue, **options: object) -> dict[int, float]:
    groups = options.pop("groups", {})
    return {one.task_queue_id: one.priority for one in prioritised(queues, groups, **options)}  # type: ignore[arg-type]


def group(name: str = "analysis", **properties: object) -> dict[tuple[str, str], GroupProperties]:
    return {(VO, name): GroupProperties(**properties)}  # type: ignore[arg-type]


@pytest.mark.parametrize("n_queues", [1, 2, 4, 10])
def test_a_queue_of_a_sharing_group_gets_one_nth_of_its_priority(n_queues: int) -> None:
    found = priorities(
        *(queue(number, user=f"user{number % 3}") for number in range(n_queues)), groups=group(job_sharing=True)
    )
    assert set(found.values()) == {1000.0 / n_queues}


@pytest.mark.parametrize(("n_users", "n_queues"), [(1, 1), (2, 1), (2, 5), (4, 2)])
def test_a_queue_of_a_divided_group_gets_one_over_n_times_u(n_users: int, n_queues: int) -> None:
    queues = [queue(10 * user + number, user=f"user{user}") for user in range(n_users) for number in range(n_queues)]
    assert set(priorities(*queues).values()) == {1000.0 / (n_users * n_queues)}


def test_users_divide_equally_however_many_queues_each_has() -> None:
    found = priorities(queue(1, "ann"), queue(2, "ann"), queue(3, "ann"), queue(4, "ann"), queue(5, "bob"))
    assert found == {1: 125.0, 2: 125.0, 3: 125.0, 4: 125.0, 5: 500.0}


@pytest.mark.parametrize(
    ("consolidation", "expected"), [("sum", {1: 750.0, 2: 250.0}), ("average", {1: 500.0, 2: 500.0})]
)
def test_the_number_of_jobs_enters_with_the_sum_and_not_with_the_average(
    consolidation: str, expected: dict[int, float]
) -> None:
    assert priorities(queue(1, n_jobs={1: 3}), queue(2, n_jobs={1: 1}), consolidation=consolidation) == expected


@pytest.mark.parametrize(
    ("user_priority", "expected"), [(-3, 1e-5), (0, 1e-5), (1, 1.0), (5, 5.0), (9, 9.0), (10, 1e6), (11, 1e6)]
)
def test_real_priorities_are_those_of_the_table(user_priority: int, expected: float) -> None:
    assert real_priority(user_priority) == expected
    assert real_priority(priority_class(user_priority)) == expected


@pytest.mark.parametrize(
    ("n_jobs", "how", "expected"),
    [
        ({1: 2, 4: 1}, "sum", 6.0),
        ({1: 2, 4: 1}, "average", 2.0),
        ({0: 10}, "average", 1e-5),
        ({10: 1, 1: 1}, "average", 500_000.5),
        ({}, "sum", 0.0),
        ({}, "average", 0.0),
    ],
)
def test_user_priorities_of_a_queue_become_one_number(n_jobs: dict[int, int], how: str, expected: float) -> None:
    assert consolidated(n_jobs, how) == pytest.approx(expected)  # type: ignore[arg-type]


def test_user_priorities_move_a_users_own_queues_only() -> None:
    found = priorities(queue(1, "ann", n_jobs={9: 1}), queue(2, "ann", n_jobs={1: 1}), queue(3, "bob"))
    assert found == {1: 450.0, 2: 50.0, 3: 500.0}


def test_the_share_of_a_group_is_its_job_share_and_1000_without_one() -> None:
    found = priorities(
        queue(1, group="prod"), queue(2, group="other"), groups=group("prod", job_share=3000, job_sharing=True)
    )
    assert found == {1: 3000.0, 2: 1000.0}


def test_an_entity_that_ran_three_times_its_share_has_a_third_of_its_priority() -> None:
    corrected = Corrections({(VO, "analysis"): 1 / 3}, {(VO, "analysis", "ann"): 0.5, (VO, "analysis", "bob"): 2.0})
    assert priorities(queue(1), groups=group(job_sharing=True), corrections=corrected) == {1: 333.3333}
    both = priorities(queue(1, "ann"), queue(2, "bob"), corrections=corrected)
    assert both == {1: 83.3333, 2: 333.3333}


def test_a_background_queue_waits_for_all_others_and_takes_nothing_from_them() -> None:
    queues = (queue(1, n_jobs={0: 4}), queue(2), queue(3))
    allowed = priorities(*queues, groups=group(allows_background=True))
    assert allowed == {1: 0.001, 2: 500.0, 3: 500.0}
    forbidden = priorities(*queues)
    assert forbidden[1] == pytest.approx(1000 * 4e-5 / 2.00004, abs=1e-4)


def test_no_priority_is_below_the_least() -> None:
    assert priorities(queue(1, n_jobs={0: 1}), queue(2, n_jobs={10: 1}))[1] == 0.001
    assert priorities(queue(1), groups=group(job_share=0)) == {1: 0.001}
    assert priorities(WaitingQueue(1, queue(1).identity, {}))[1] == 0.001


def test_queues_that_differ_only_in_sites_get_the_sum_each() -> None:
    same = {"tags": ("GPU",)}
    found = priorities(
        queue(1, sites=("A",), **same), queue(2, sites=("B",), **same), queue(3, banned_sites=("C",), **same), queue(4)
    )
    assert found == {1: 750.0, 2: 750.0, 3: 750.0, 4: 250.0}


def test_priorities_have_four_decimals() -> None:
    found = priorities(queue(1), queue(2), queue(3))
    assert set(found.values()) == {333.3333}


_QUEUES = st.lists(
    st.builds(
        lambda user, group, tag, counts: (user, group, tag, counts),
        st.sampled_from(["ann", "bob", "cid"]),
        st.sampled_from(["prod", "analysis"]),
        st.integers(0, 5),
        st.dictionaries(st.integers(1, 9), st.integers(1, 50), min_size=1),
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda one: one[:3],
)


@given(_QUEUES, st.sampled_from(["sum", "average"]), st.booleans(), st.floats(0.2, 5.0))
def test_every_entity_keeps_its_share_whatever_waits_in_its_queues(
    drawn: list[tuple[str, str, int, dict[int, int]]], how: str, sharing: bool, correction: float
) -> None:
    queues = [
        queue(number, user, name, n_jobs=counts, tags=(f"tag{tag}",))
        for number, (user, name, tag, counts) in enumerate(drawn)
    ]
    properties = {(VO, "prod"): GroupProperties(3000, job_sharing=sharing)}
    corrections = Corrections({(VO, "prod"): correction})
    found = list(prioritised(queues, properties, consolidation=how, corrections=corrections))  # type: ignore[arg-type]
    assert sorted(one.task_queue_id for one in found) == list(range(len(queues)))
    by_group: dict[str, list[TaskQueuePriority]] = defaultdict(list)
    for one in found:
        by_group[one.identity.user_group].append(one)
    for name, ones in by_group.items():
        share = 3000 * correction if name == "prod" else 1000.0
        assert sum(one.alone for one in ones) == pytest.approx(share, abs=0.001 * len(ones))
        if not (sharing and name == "prod"):
            users = {one.identity.user_name for one in ones}
            for user in users:
                own = sum(one.alone for one in ones if one.identity.user_name == user)
                assert own == pytest.approx(share / len(users), abs=0.001 * len(ones))


@pytest.mark.parametrize(
    ("cpu_time_s", "segment"),
    [(0, 360), (1, 360), (360, 360), (361, 1800), (86_400, 86_400), (1_080_000, 1_080_000), (9e9, 1_080_000)],
)
def test_cpu_time_is_rounded_up_to_a_segment(cpu_time_s: float, segment: int) -> None:
    assert len(CPU_SEGMENTS_S) == 13
    assert cpu_segment_s(cpu_time_s) == segment


@pytest.mark.parametrize(
    ("configured", "taken"),
    [
        ([600, 7200], (600, 7200)),
        ([600, 600], CPU_SEGMENTS_S),
        ([7200, 600], CPU_SEGMENTS_S),
        ([0, 600], CPU_SEGMENTS_S),
        (["600"], CPU_SEGMENTS_S),
        ([True, 600], CPU_SEGMENTS_S),
        ("600", CPU_SEGMENTS_S),
        ([], CPU_SEGMENTS_S),
        (None, CPU_SEGMENTS_S),
    ],
)
def test_segments_must_strictly_increase(configured: object, taken: tuple[int, ...]) -> None:
    assert segments_of(configured) == taken


def test_the_digest_of_an_identity_does_not_depend_on_the_order_of_its_sets() -> None:
    row = {"vo": VO, "user_name": "ann", "user_group": "g", "cpu_segment_s": 360, "sites": ["A", "B", "A"]}
    empty = {name: [] for name in ("banned_sites", "platforms", "tags", "job_types")}
    one = TaskQueueIdentity.of({**row, **empty})
    other = TaskQueueIdentity.of({**row, **empty, "sites": ["B", "A"]})
    assert one == other and one.digest == other.digest
    assert TaskQueueIdentity.of({**row, **empty, "sites": ["A"]}).digest != one.digest
