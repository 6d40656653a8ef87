"""JEDI: Jumbo jobs and co-jumbo jobs: one jumbo job for each queue that passes, whatever was ranked."""

from __future__ import annotations

from dataclasses import replace

from services.job_brokerage.policy.jumbo import jumbo_queues
from services.job_brokerage.policy.production import ProductionJobBrokerage
from shared.brokerage.load import JobCount
from shared.brokerage.request import JobRequest
from tests.unit.brokerage.worlds import a_queue, a_request, a_world


def names(request: JobRequest, *queues, jobs=()) -> list[str]:
    world = a_world(queues, jobs=jobs)
    return [one.queue for one in jumbo_queues(world, request, ProductionJobBrokerage().decide(world, request, 1))]


WITH_JUMBO = a_request(uses_jumbo=True)


def test_every_queue_for_jumbo_jobs_that_passes_may_get_one_beyond_the_ranked_ones_too() -> None:
    queues = [a_queue(f"J{number:02}", options={"useJumboJobs": "true"}) for number in range(12)]
    found = names(WITH_JUMBO, a_queue("Q"), *queues, a_queue("J_OFF", options={"useJumboJobs": "true"}, max_rss_mb=1))
    assert found == [f"J{number:02}" for number in range(12)]


def test_the_caps_on_queued_jobs_are_for_co_jumbo_jobs() -> None:
    full = [JobCount("J", "", "activated", 10_000)]
    assert names(WITH_JUMBO, a_queue("J", options={"useJumboJobs": "true"}), a_queue("Q"), jobs=full) == ["J"]


def test_a_queue_with_several_resource_types_is_told_once() -> None:
    unified = a_queue("U", capability="ucore", core_count=8, max_rss_mb=32_000, options={"useJumboJobs": "true"})
    assert names(WITH_JUMBO, unified) == ["U"]


def test_work_without_jumbo_jobs_has_no_queues_for_them() -> None:
    queue = a_queue("J", options={"useJumboJobs": "true"})
    assert names(a_request(), queue) == []
    assert names(replace(WITH_JUMBO, is_merge=True), queue) == []
