"""Build jobs: where the library is made, who waits for it, and when a task is broken for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_generation.policy.build_jobs import (
    MOST_FAILURES,
    SiteBuild,
    decide,
    refused_for_failures,
    with_libraries,
)
from services.job_generation.policy.placing import PlacedJob
from services.job_generation.policy.values import JobInput, QueueFacts, Unit


def queue(name: str, site: str) -> QueueFacts:
    return QueueFacts(name, "SCORE", site)


def library(file_id: int = 7) -> Unit:
    return Unit(file_id, "t.lib._000001.lib.tgz", 10, None, None, None, None, None, None, dataset_id=5)


A, A2, B = queue("A", "a"), queue("A2", "a"), queue("B", "b")


def test_the_library_is_built_at_the_best_queue_once_for_its_site() -> None:
    decision = decide([A, A2, B], {})
    assert (decision.build_at, decision.usable, decision.reason) == (A, [], "waits for the build at a")
    waiting = decide([A2, B], {"a": SiteBuild("a", job_id=3)})
    assert (waiting.build_at, waiting.usable) == (None, []) and waiting.reason == "waits for the build at a, job 3"


def test_jobs_go_where_the_library_is_whatever_the_order_of_the_queues() -> None:
    built = {"a": SiteBuild("a", library=library())}
    assert (decide([A, B, A2], built).usable, decide([A, B, A2], built).build_at) == ([A, A2], None)
    decision = decide([B, A, A2], built)
    assert (decision.usable, decision.build_at) == ([A, A2], B), "a site that is ranked first gets a library"
    under_way = built | {"b": SiteBuild("b", job_id=3)}
    assert decide([B, A, A2], under_way).build_at is None


def test_a_site_where_it_failed_three_times_is_left_out() -> None:
    failed = {"a": SiteBuild("a", n_failures=MOST_FAILURES)}
    assert decide([A, B], failed).build_at == B
    assert decide([A], failed).reason == "the build failed 3 times at a" and decide([A], failed).build_at is None
    assert decide([A, B], {"a": SiteBuild("a", n_failures=MOST_FAILURES - 1)}).build_at == A
    assert decide([], {}).build_at is None


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
    decision = decide([queue(name, site) for name, site in ranked], builds)
    assert decision.reason
    assert all(builds[one.site].library for one in decision.usable)
    if decision.build_at is not None:
        known = builds.get(decision.build_at.site, SiteBuild(""))
        assert (known.job_id, known.library) == (None, None) and known.n_failures < MOST_FAILURES
