"""One storage for the output of a queue's jobs, whoever asks: brokerage, specification, transfer, catalogue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.job_dispatch.lifecycle.inputs import best_source
from services.job_dispatch.lifecycle.outputs import holding_job
from services.job_dispatch.policy.outputs import HeldOutput
from services.job_dispatch.policy.reports import ReportedJob
from services.job_dispatch.store.jobs import JobOutput, LockedJob, StoredReport, TaskOfJobs
from services.job_generation.policy.queue_facts import facts_of_candidates
from shared.brokerage.output_places import kept_storage, storage_of_file, written_storage
from shared.brokerage.world import World
from shared.events import QueueChoice
from shared.model.grid import Grid
from shared.model.queue import Queue, queue_from_cric
from shared.model.site import Site
from shared.model.storage import Storage
from shared.task.in_effect import rules_of
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
    return written_storage(facts.write_storages, None)


def of_the_transfer(grid: Grid, *, analysis: bool) -> str | None:
    row = ReportedJob(1, 1, "holding", 1, "Q", "SCORE", "share", "alice", 1)
    job = LockedJob(row, 1, 100, "normal", "user" if analysis else "managed")
    report = StoredReport("finished", {"outputs": {"f": {"fsize": 1}}})
    written = [JobOutput("f", 1, None, None)]
    return (
        holding_job(grid, job, TaskOfJobs(1, "running", None, None, rules_of(None)), report, written)
        .outputs[0]
        .written_at
    )


def in_the_catalogue(grid: Grid, *, analysis: bool) -> str | None:
    return storage_of_file(grid, "Q", None, None, analysis=analysis)


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
    assert storage_of_file(grid, "Q", "D2", None, analysis=False) == "D2"
    assert storage_of_file(grid, "Q", "GONE", None, analysis=False) == "D4"
    assert storage_of_file(grid, "NO_QUEUE", None, None, analysis=False) is None


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
    kept = kept_storage(a_grid(a_queue({}), storages, default=default), None, None, SITE)
    assert kept is not None and kept.name == expected


@pytest.mark.parametrize(
    ("destination", "kept_at"), [("D4", "D4"), (ELSEWHERE, "D4"), ("D2", None), ("NOWHERE", None), (None, None)]
)
def test_outputs_are_kept_at_the_storage_or_site_that_the_task_names_and_never_on_tape(
    destination: str | None, kept_at: str | None
) -> None:
    storages = {"D1": (SITE, False), "D2": (SITE, True), "D4": (ELSEWHERE, False)}
    kept = kept_storage(a_grid(a_queue({}), storages, default="D1"), None, None, destination)
    assert (kept.name if kept else None) == kept_at


#: a queue that writes to the data disk of SITE and has a scratch disk beside it; ELSEWHERE has disk and tape
PLACES = {
    "S_DATA": (SITE, "DATADISK", False), "S_SCRATCH": (SITE, "SCRATCHDISK", False),
    "E_DATA": (ELSEWHERE, "DATADISK", False), "E_TAPE": (ELSEWHERE, "DATATAPE", True),
    "E_GROUP": (ELSEWHERE, "GROUPDISK", False),
}  # fmt: skip


@pytest.mark.parametrize(
    ("token", "destination", "of_task", "written_at", "goes_to"),
    [
        # without a token: to the destination of the dataset, else of the task, else its nucleus
        (None, None, None, "S_DATA", None),
        (None, None, ELSEWHERE, "S_DATA", "E_DATA"),
        (None, "E_GROUP", SITE, "S_DATA", "E_GROUP"),
        (None, SITE, ELSEWHERE, "S_DATA", None),
        (None, None, SITE, "S_DATA", None),
        # a kind of storage, where it is written and where it is kept
        ("SCRATCHDISK", None, SITE, "S_SCRATCH", None),
        ("ATLASDATADISK", None, ELSEWHERE, "S_DATA", "E_DATA"),
        ("DATATAPE", None, ELSEWHERE, "S_DATA", "E_TAPE"),
        ("ATLASGROUPDISK", None, ELSEWHERE, "S_DATA", "E_GROUP"),
        ("GROUPDISK", None, SITE, "S_DATA", None),  # its nucleus has none: any storage there will do
        ("E_GROUP", None, ELSEWHERE, "S_DATA", "E_GROUP"),
        # a destination in the token, alone and with a kind
        ("dst:ELSEWHERE", None, SITE, "S_DATA", "E_DATA"),
        ("dst:E_GROUP", SITE, SITE, "S_DATA", "E_GROUP"),
        ("dst:ELSEWHERE,DATATAPE", None, SITE, "S_DATA", "E_TAPE"),
        # distributed: where it is written, or at the storage that is named
        ("ddd:", None, ELSEWHERE, "S_DATA", None),
        ("ddd:", "E_GROUP", ELSEWHERE, "S_DATA", None),
        ("ddd:E_GROUP", None, SITE, "S_DATA", "E_GROUP"),
        ("ddd:S_DATA", None, ELSEWHERE, "S_DATA", None),
    ],
)
def test_the_token_and_the_destination_of_a_dataset_say_where_its_files_go(
    token: str | None, destination: str | None, of_task: str | None, written_at: str, goes_to: str | None
) -> None:
    storages = {
        name: Storage(name, site, kind, tape, 1e6, 1000.0, 0, 0, 0) for name, (site, kind, tape) in PLACES.items()
    }
    sites = {SITE: Site(SITE, "ACTIVE", default_storage="S_DATA"), ELSEWHERE: Site(ELSEWHERE, "ACTIVE")}
    sites[ELSEWHERE] = replace(sites[ELSEWHERE], default_storage="E_DATA")
    grid = Grid.of({"Q": a_queue({"write_lan": ["S_DATA", "S_SCRATCH"]})}, sites, storages)
    row = ReportedJob(1, 1, "holding", 1, "Q", "SCORE", "share", "alice", 1)
    task = TaskOfJobs(1, "running", "prod", SITE, rules_of({"destination": of_task}))
    task = replace(task, nucleus=None)
    report = StoredReport("finished", {"outputs": {"f": {"fsize": 7}}})
    outputs = [JobOutput("f", 1, token, destination), JobOutput("not.listed", 2, token, destination)]
    [held] = holding_job(grid, LockedJob(row, 1, 100, "normal", "managed"), task, report, outputs).outputs
    assert held == HeldOutput(1, 7, written_at, goes_to)
