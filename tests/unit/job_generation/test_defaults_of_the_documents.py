"""Values that the documents give where a task or an operator says nothing."""

from __future__ import annotations

import pytest

from services.job_generation.kinds.merge.job import MERGE
from services.job_generation.scouts import verdicts as scouts
from services.job_generation.scouts.reports import ScoutReport
from services.job_generation.specification.requirements import requirement_of
from services.job_generation.splitting.limits import Totals
from services.task_definition.tasks.policy.client_defaults import with_client_defaults
from services.task_definition.tasks.policy.task_spec import parse_task
from shared.config.parameters import Parameters
from shared.task.needs import needs_of_merge_job
from tests.handlers.task_definition.world import analysis
from tests.unit.job_generation.made import a_queue, a_task


def a_report(pss_mb: int, cores: int = 1) -> ScoutReport:
    return ScoutReport(1000, 1024**2, None, 4600.0, cores, 10.0, max_pss_kb=pss_mb * 1024)


def test_the_memory_of_scouts_is_the_largest_without_a_margin() -> None:
    task = {"base_ram_count": 500, "ram_unit": "MBPerCore"}
    reports = [a_report(2000), a_report(1500)]
    for parameters in (scouts.ScoutParameters(), Parameters().filled(scouts.ScoutParameters)):
        assert scouts.measured(task, reports, parameters)["ram_count"] == 1500  # (2000 - 500) / 1 core
    newer = scouts.ScoutParameters(ram_rank=75, ram_margin=1.1)
    assert scouts.measured(task, reports, newer)["ram_count"] == 1513  # (1000 + 0.75 x 500) x 1.1, rounded up


@pytest.mark.parametrize(("stated", "slot", "expected"), [(None, 8, 1), (0, 8, 8), (4, 8, 4), (0, 1, 1), (0, 0, 1)])
def test_merge_core_count_0_means_any_number_and_the_job_has_its_slots(
    stated: int | None, slot: int, expected: int
) -> None:
    task = a_task({}, merge_core_count=stated, core_count=8)
    assert requirement_of(task, a_queue(core_count=slot), MERGE, Totals(1), None).core_count == expected
    assert needs_of_merge_job({"merge_core_count": stated}).core_count == (1 if stated is None else stated)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({"processingType": "panda-client-1.5-jedi-athena"}, 600), ({"processingType": "panda-client-1.5-jedi-run"}, 60),
     ({"processingType": "panda-client-1.5-jedi-cont"}, 600), ({"processingType": None}, 60),
     ({"processingType": "panda-client-1.5-jedi-run", "transPath": "http://mine/run"}, 600)],
)  # fmt: skip
def test_the_base_walltime_of_analysis_is_a_minute_only_for_scripts_of_the_server_without_release_and_container(
    changes: dict[str, str | None], expected: int
) -> None:
    without = {name: value for name, value in analysis().items() if name != "transPath"}
    given = with_client_defaults({**without, **changes}, "http://scripts/", {"run": "r", "athena": "a", "cont": "c"})
    assert parse_task(given).columns()["base_walltime"] == expected
    assert parse_task({**given, "baseWalltime": 90}).columns()["base_walltime"] == 90
