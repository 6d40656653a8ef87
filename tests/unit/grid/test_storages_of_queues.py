"""One storage for the output of a queue's jobs, whoever asks: brokerage, specification, transfer, catalogue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.job_dispatch.lifecycle.inputs import best_source
from services.job_dispatch.lifecycle.outputs import holding_job
from services.job_dispatch.policy.reports import ReportedJob
from services.job_dispatch.store.jobs import LockedJob, TaskOfJobs
from services.job_generation.policy.queue_facts import facts_of_candidates
from services.task_definition.registering import output_storage
from shared.brokerage.world import World
from shared.events import QueueChoice
from shared.model.grid import Grid
from shared.model.job_report import ReportedFile
from shared.model.queue import Queue, queue_from_cric
from shared.model.site import Site
from shared.model.storage import Storage
from tests.unit.job_generation.made import a_task

SITE, ELSEWHERE = "SITE", "ELSEWHERE"
#: the last is named by queues and sites, but no storage has this name
NAMES = ("D1", "D2", "D3", "D4", "GONE")
LISTS = ("read_lan", "write_lan", "read_lan_analysis", "write_lan_analysis")
ENDPOINTS = st.lists(st.sampled_from(NAMES), max_size=3)


def a_queue(astorages: dict[str, list[str]], **changes: Any) -> Queue:
    record = {
        "status": "online", "type": "unified", "atlas_site": SITE, "corecount": 1, "astorages": astorages, **changes
    }  # fmt: skip
    queue = queue_from_cric("Q", record)
    assert isinstance(queue, Queue)
    return queue


def a_grid(queue: Queue, storages: dict[str, tuple[str, bool]], default: str = "") -> Grid:
    """Storages by name with their site and whether they are tape; each has another size."""
    made = {
        name: Storage(name, site, "DATADISK", is_tape, 1e6, 1000.0 * (NAMES.index(name) + 1), 0, 0, 0)
        for name, (site, is_tape) in storages.items()
    }
    return Grid.of({"Q": queue}, {SITE: Site(SITE, "ACTIVE", default_storage=default)}, made)


def for_brokerage(grid: Grid, *, analysis: bool) -> str | None:
    world = World.of(grid)
    usable = (world.analysis_output if analysis else world.production_output).usable_gb[0]
    return next((name for name, one in grid.storages.items() if one.space_usable_gb == usable), None)


def in_the_specification(grid: Grid, *, analysis: bool) -> str | None:
    task = a_task(task_type="anal" if analysis else "prod")
    candidate = QueueChoice(queue="Q", resource_type="SCORE", weight=1.0, max_jobs=None)
    [facts] = facts_of_candidates(grid, task, [candidate], {})
    return facts.write_storage or None


def of_the_transfer(grid: Grid, *, analysis: bool) -> str | None:
    row = ReportedJob(1, 1, "holding", 1, "Q", "SCORE", "share", "alice", 1)
    job = LockedJob(row, 1, 100, "normal", "user" if analysis else "managed")
    return holding_job(grid, job, TaskOfJobs(1, "running", None, None, {}), None).queue_storage


def in_the_catalogue(grid: Grid, *, analysis: bool) -> str | None:
    found = ReportedFile("f", None, 1, None, None)
    return output_storage(grid, "Q", found, analysis=analysis)


ASKERS = (for_brokerage, in_the_specification, of_the_transfer, in_the_catalogue)


def by_the_rule(grid: Grid, astorages: dict[str, list[str]], default: str, *, analysis: bool) -> str | None:
    """The rule, said again: the list of the kind of work, else the general one, else the site's default and disks."""
    disks = sorted(name for name, one in grid.storages.items() if one.site == SITE and not one.is_tape)
    lists = [astorages.get("write_lan_analysis", [])] if analysis else []
    for names in (*lists, astorages.get("write_lan", []), [default], disks):
        for name in names:
            if name in grid.storages:
                return name
    return None


@settings(deadline=None)
@given(
    astorages=st.fixed_dictionaries({}, optional=dict.fromkeys(LISTS, ENDPOINTS)),
    storages=st.dictionaries(st.sampled_from(NAMES[:-1]), st.tuples(st.sampled_from([SITE, ELSEWHERE]), st.booleans())),
    default=st.sampled_from(["", *NAMES]),
    analysis=st.booleans(),
    wan=st.booleans(),
    vp=st.booleans(),
)
def test_brokerage_specification_transfer_and_catalogue_name_the_same_storage(
    astorages: dict[str, list[str]],
    storages: dict[str, tuple[str, bool]],
    default: str,
    analysis: bool,
    wan: bool,
    vp: bool,
) -> None:
    grid = a_grid(a_queue(astorages, direct_access_wan=wan, params={"use_vp": vp}), storages, default)
    named = {asker.__name__: asker(grid, analysis=analysis) for asker in ASKERS}
    assert named == dict.fromkeys(named, by_the_rule(grid, astorages, default, analysis=analysis))


EVERYWHERE = dict.fromkeys(NAMES[:-1], (SITE, False))


@pytest.mark.parametrize("asker", ASKERS, ids=[one.__name__ for one in ASKERS])
@pytest.mark.parametrize(
    ("astorages", "production", "analysis"),
    [
        ({"write_lan": ["D2"], "write_lan_analysis": ["D3"]}, "D2", "D3"),
        ({"write_lan": ["D2"]}, "D2", "D2"),
        ({"write_lan_analysis": ["D3"]}, "D4", "D3"),  # production never writes to a list of analysis
        ({"read_lan": ["D2"], "read_lan_analysis": ["D3"]}, "D4", "D4"),  # nor anybody to a list for reading
        ({"write_lan": ["GONE", "D2"]}, "D2", "D2"),
        ({}, "D4", "D4"),
    ],
)
def test_output_goes_to_the_first_known_storage_of_its_list_and_else_to_the_default(
    asker: Any, astorages: dict[str, list[str]], production: str, analysis: str
) -> None:
    grid = a_grid(a_queue(astorages), EVERYWHERE, default="D4")
    assert (asker(grid, analysis=False), asker(grid, analysis=True)) == (production, analysis)


@pytest.mark.parametrize("asker", ASKERS, ids=[one.__name__ for one in ASKERS])
def test_a_queue_of_a_site_with_tape_alone_has_no_storage_for_output(asker: Any) -> None:
    assert asker(a_grid(a_queue({}), {"D1": (SITE, True), "D2": (ELSEWHERE, False)}), analysis=False) is None


def test_without_a_default_the_first_disk_of_the_site_takes_output() -> None:
    grid = a_grid(a_queue({}), {"D1": (SITE, True), "D2": (ELSEWHERE, False), "D3": (SITE, False), "D4": (SITE, False)})
    assert grid.queues["Q"].output_storage(analysis=False) == "D3"


@pytest.mark.parametrize(
    ("changes", "astorages", "expected"),
    [
        ({}, {"read_lan": ["D2"]}, "D2"),
        ({}, {}, "D4"),
        ({"direct_access_wan": True}, {"read_lan": ["D2"]}, "D2"),
        ({"direct_access_wan": True}, {}, None),
        ({"params": {"use_vp": True}}, {"read_lan": ["D2"]}, None),
    ],
)
def test_input_is_moved_to_the_first_storage_that_is_read_unless_the_queue_reads_from_afar(
    changes: dict[str, Any], astorages: dict[str, list[str]], expected: str | None
) -> None:
    grid = a_grid(a_queue(astorages, **changes), EVERYWHERE, default="D4")
    assert grid.queues["Q"].input_storage(analysis=False) == expected


def test_a_file_is_where_its_pilot_says_if_there_is_such_a_storage_and_a_queue_that_is_gone_has_none() -> None:
    grid = a_grid(a_queue({}), EVERYWHERE, default="D4")
    assert output_storage(grid, "Q", ReportedFile("f", None, 1, None, "D2"), analysis=False) == "D2"
    assert output_storage(grid, "Q", ReportedFile("f", None, 1, None, "GONE"), analysis=False) == "D4"
    assert output_storage(grid, "NO_QUEUE", ReportedFile("f", None, 1, None, None), analysis=False) is None


def test_input_is_read_from_a_whole_copy_on_disk_that_is_not_blacklisted() -> None:
    grid = a_grid(a_queue({}), {"D1": (SITE, True), "D2": (SITE, False), "D3": (SITE, False), "D4": (SITE, False)})
    down = replace(grid.storages["D2"], blacklisted_read=True)
    grid = replace(grid, storages={**grid.storages, "D2": down})
    assert best_source(grid, ["D1", "D2", "D3"], ["D4"]) == "D3"
    assert best_source(grid, ["D1", "D2"], ["D4"]) == "D2"
    assert best_source(grid, ["D1"], ["D4"]) == "D1"
    assert best_source(grid, ["GONE"], ["D4"]) == "D4"
    assert best_source(grid, [], []) is None


@pytest.mark.parametrize(("default", "expected"), [("D4", "D4"), ("", "D3"), ("GONE", "D3")])
def test_a_nucleus_keeps_output_at_its_default_storage_else_at_its_disk_with_most_space(
    default: str, expected: str
) -> None:
    storages = {"D1": (SITE, False), "D2": (SITE, True), "D3": (SITE, False), "D4": (ELSEWHERE, False)}
    grid = a_grid(a_queue({}), storages, default=default)
    row = ReportedJob(1, 1, "holding", 1, "Q", "SCORE", "share", "alice", 1)
    job = LockedJob(row, 1, 100, "normal", "managed")
    assert holding_job(grid, job, TaskOfJobs(1, "running", "prod", SITE, {}), None).kept_at == expected


@pytest.mark.parametrize(
    ("destination", "kept_at", "any_storage_of"),
    [("D4", "D4", None), (ELSEWHERE, "D4", ELSEWHERE), ("D2", None, None), ("NOWHERE", None, "NOWHERE")],
)
def test_outputs_are_kept_at_the_storage_or_site_that_the_task_names_and_never_on_tape(
    destination: str, kept_at: str | None, any_storage_of: str | None
) -> None:
    storages = {"D1": (SITE, False), "D2": (SITE, True), "D4": (ELSEWHERE, False)}
    grid = a_grid(a_queue({}), storages, default="D1")
    row = ReportedJob(1, 1, "holding", 1, "Q", "SCORE", "share", "alice", 1)
    task = TaskOfJobs(1, "running", "prod", SITE, {"destination": destination})
    found = holding_job(grid, LockedJob(row, 1, 100, "normal", "managed"), task, None)
    assert (found.kept_at, found.kept_at_site) == (kept_at, any_storage_of)
