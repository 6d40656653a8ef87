"""Build jobs: where the library is made, who waits for it, and when a task is broken for it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_generation.kinds.build.policy import (
    MOST_FAILURES,
    Libraries,
    SiteBuild,
    decide,
    refused_for_failures,
    with_libraries,
)
from services.job_generation.policy.values import JobInput, PlacedJob, QueueFacts, Unit
from services.job_generation.splitting.placement import Placement


def queue(name: str, site: str) -> QueueFacts:
    return QueueFacts(name, "SCORE", site)


def library(file_id: int = 7) -> Unit:
    return Unit(file_id, "t.lib._000001.lib.tgz", 10, None, None, None, None, None, None, dataset_id=5)


A, A2, B, C = queue("A", "a"), queue("A2", "a"), queue("B", "b"), queue("C", "c")


HOUR_S = 3600.0


def usable(queues: list[QueueFacts], builds: Mapping[str, SiteBuild]) -> list[QueueFacts]:
    return decide(queues, builds, longest_s=HOUR_S).usable


def held(placed: list[PlacedJob], builds: Mapping[str, SiteBuild]) -> tuple[Placement, Libraries]:
    placement, libraries = Placement(list(placed)), Libraries(builds)
    libraries.hold(placement)
    return placement, libraries


def a_job(queue: QueueFacts, file_id: int) -> PlacedJob:
    return PlacedJob(queue, JobInput((Unit(file_id, "x", 1, None, None, None, None, None, None, dataset_id=2),)))


def test_jobs_go_to_every_site_also_to_those_without_a_library_yet() -> None:
    assert usable([A, A2, B], {}) == [A, A2, B]
    assert usable([A, A2, B], {"a": SiteBuild("a", library=library()), "b": SiteBuild("b", job_id=3)}) == [A, A2, B]


def test_a_library_is_made_at_each_chosen_site_and_the_others_wait_for_theirs() -> None:
    jobs = [a_job(B, 4), a_job(A, 1), a_job(A2, 2), a_job(C, 3)]
    placement, libraries = held(jobs, {"a": SiteBuild("a", library=library()), "c": SiteBuild("c", job_id=9)})
    assert [(one.queue, one.job.secondary[5][0].file_id) for one in placement.jobs] == [(A, 7), (A2, 7)]
    assert [unit.file_id for unit in placement.leftover] == [3, 4]
    assert libraries.to_begin == [B] and placement.reasons == ["waits for the build at b, c (job 9)"]
    placement, libraries = held(jobs, {})
    assert placement.jobs == [] and libraries.to_begin == [B, A, C], "one for each site"


def test_a_build_that_takes_too_long_is_not_waited_for_while_another_site_has_the_library() -> None:
    slow = {"b": SiteBuild("b", job_id=3, under_way_s=HOUR_S)}
    assert usable([A, B], slow | {"a": SiteBuild("a", library=library())}) == [A]
    assert usable([A, B], slow) == [A, B]


def test_a_site_where_it_failed_three_times_is_left_out() -> None:
    failed = {"a": SiteBuild("a", n_failures=MOST_FAILURES)}
    assert usable([A, B], failed) == [B]
    decision = decide([A], failed, longest_s=HOUR_S)
    assert (decision.usable, decision.reason) == ([], "the build failed 3 times at a")
    assert usable([A, B], {"a": SiteBuild("a", n_failures=MOST_FAILURES - 1)}) == [A, B]
    assert usable([A], {"a": SiteBuild("a", library=library(), n_failures=MOST_FAILURES)}) == [A]
    assert decide([], {}, longest_s=HOUR_S).reason == "the build failed 3 times at none of the ranked queues"


@pytest.mark.parametrize(
    ("status", "failures", "is_broken"),
    [("scouting", 3, True), ("ready", 3, True), ("scouting", 2, False), ("running", 9, False), ("pending", 9, False)],
)
def test_three_failed_builds_break_a_task_that_scouts(status: str, failures: int, is_broken: bool) -> None:
    builds = {"a": SiteBuild("a", n_failures=1), "b": SiteBuild("b", n_failures=failures - 1)}
    assert (refused_for_failures(status, builds) is not None) is is_broken  # type: ignore[arg-type]
    built = builds | {"c": SiteBuild("c", library=library())}
    assert refused_for_failures(status, built) is None, "elsewhere it was made"  # type: ignore[arg-type]


def test_each_job_reads_the_library_of_its_own_site() -> None:
    builds = {"a": SiteBuild("a", library=library(7)), "b": SiteBuild("b", library=library(8))}
    other = Unit(1, "x", 1, None, None, None, None, None, None, dataset_id=2)
    placed = [PlacedJob(one, JobInput((), {2: (other,)})) for one in (A, B, A2)]
    found = with_libraries(placed, builds)
    assert [one.job.secondary[5][0].file_id for one in found] == [7, 8, 7]
    assert all(one.job.secondary[2] == (other,) for one in found)
    assert with_libraries(placed, {}) == placed


@given(
    st.lists(st.tuples(st.sampled_from("ABCDE"), st.sampled_from("abc")), max_size=6),
    st.dictionaries(
        st.sampled_from("abc"),
        st.tuples(st.sampled_from(["", "building", "built"]), st.integers(0, MOST_FAILURES)),
    ),
)
def test_nothing_is_built_where_it_is_built_already_or_under_way(
    ranked: list[tuple[str, str]], states: dict[str, tuple[str, int]]
) -> None:
    builds = {
        site: SiteBuild(site, 1 if state == "building" else None, library() if state == "built" else None, failures)
        for site, (state, failures) in states.items()
    }
    queues = [queue(name, site) for name, site in ranked]
    decision = decide(queues, builds, longest_s=HOUR_S)
    assert bool(decision.usable) != bool(decision.reason)
    _, libraries = held([a_job(one, number) for number, one in enumerate(decision.usable)], builds)
    for one in libraries.to_begin:
        known = builds.get(one.site, SiteBuild(""))
        assert (known.job_id, known.library) == (None, None) and known.n_failures < MOST_FAILURES
