"""Only work that no queue could ever run is refused: each brokerage's own checks of what a queue is."""

from __future__ import annotations

from typing import Any

import pytest

from services.job_brokerage.policy import analysis, production
from services.job_brokerage.policy.analysis import AnalysisJobBrokerage
from services.job_brokerage.policy.request import job_request
from services.task_definition.tasks.policy.could_run import could_run, typical_job
from shared.brokerage.ability import ABILITY, ANALYSIS_ABILITY
from shared.brokerage.check import Filter, Tier
from shared.brokerage.limits import JobLimits
from shared.model.queue import QueueStatus, QueueType
from tests.unit.brokerage.test_job_brokerage import ROW
from tests.unit.brokerage.worlds import NOW, a_queue, a_world

ANALYSIS = {
    **ROW, "task_type": "anal", "prod_source_label": "user", "processing_type": "panda-client", "core_count": 1,
    "ram_count": 1000, "nucleus": None, "resource_type": "SCORE", "split_rule": {}, "cpu_time": 10,
}  # fmt: skip


def could(row: dict[str, Any], **queue: Any) -> bool:
    return bool(could_run(a_world([a_queue("Q", **queue)]), typical_job(row, 10, 1000, 5000, NOW)).chosen)


def is_brokered(row: dict[str, Any], **queue: Any) -> bool:
    request = job_request(row, (), JobLimits(), NOW)
    return bool(AnalysisJobBrokerage().decide(a_world([a_queue("Q", **queue)]), request, 1).chosen)


@pytest.mark.parametrize(
    ("rule", "queue"),
    [
        ({}, {"fair_share_policy": "type=evgen:100%,type=simul:100%,type=any:0%"}), ({}, {"jobseed": "es"}),
        ({"allowInputLAN": "only"}, {"direct_access_lan": False}), ({}, {"name": "ANALY_TEST"}),
    ],
)  # fmt: skip
def test_analysis_that_its_brokerage_would_run_is_not_refused(rule: dict[str, Any], queue: dict[str, Any]) -> None:
    row, name = {**ANALYSIS, "split_rule": rule}, queue.pop("name", "Q")
    world = a_world([a_queue(name, **queue)])
    assert AnalysisJobBrokerage().decide(world, job_request(row, (), JobLimits(), NOW), 1).chosen == (name,)
    assert could_run(world, typical_job(row, 10, 1000, 5000, NOW)).chosen == (name,)
    assert could_run(world, typical_job({**row, "task_type": "prod"}, 10, 1000, 5000, NOW)).chosen == ()


@pytest.mark.parametrize(
    ("row", "queue"),
    [
        ({}, {"type": QueueType.PRODUCTION}), ({"core_count": 8}, {}), ({"ram_count": 9000}, {}),
        ({"base_walltime": 10**6}, {}), ({"split_rule": {"excludedSite": ["Q"]}}, {}),
        ({"split_rule": {"avoidVP": True}}, {"options": {"use_vp": "true"}}),
        ({"work_disk_count": 10**6, "work_disk_unit": "MB"}, {}), ({}, {"write_storages": ()}),
    ],
)  # fmt: skip
def test_analysis_that_no_queue_could_ever_run_is_refused(row: dict[str, Any], queue: dict[str, Any]) -> None:
    assert could(ANALYSIS)
    assert not could({**ANALYSIS, **row}, **queue)


@pytest.mark.parametrize(("group", "largest_s"), [(None, 500), (2, 500), (3, 100), (4, 100)])
def test_where_a_boundary_is_one_job_it_may_be_one_file_however_many_the_rules_ask_for(
    group: int | None, largest_s: int
) -> None:
    """Files of 100 events of 1 HS06 s x 9 / (10 HS06 x 0.9): 100 s each, and five of them in a job by nFilesPerJob."""
    row = {
        **ANALYSIS,
        "cpu_time": 9,
        "cpu_efficiency": 90,
        "base_walltime": 0,
        "split_rule": {"nFilesPerJob": 5, "groupBoundaryID": group},
    }
    assert could(row, max_time_s=largest_s) and not could(row, max_time_s=largest_s - 1)


def test_a_queue_that_is_offline_today_could_run_it_some_day() -> None:
    assert could(ANALYSIS, status=QueueStatus.OFFLINE) and not is_brokered(ANALYSIS, status=QueueStatus.OFFLINE)


def named(filters: tuple[Filter, ...], *tiers: Tier) -> set[str]:
    return {one.check.name for one in filters if not one.check.temporary and one.check.tier in tiers}


def test_the_checks_of_what_a_queue_is_are_those_of_each_brokerage() -> None:
    own = {"avoid_vp", "preassigned", "included_sites", "excluded_sites", "zero_share"}
    for pipeline, able in ((analysis.PIPELINE, ANALYSIS_ABILITY), (production.PIPELINE, ABILITY)):
        asked = named(able.filters, *Tier)
        every = named(pipeline.filters, *Tier)
        assert asked <= every, "nothing that brokerage does not ask"
        assert asked == (named(pipeline.filters, Tier.CONFIGURATION) | (own & every)) - {"blocked_link"}
