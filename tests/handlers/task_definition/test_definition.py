from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import pytest

from services.task_definition.data.importing.files import import_catalogue
from shared.catalogue import BuiltInCatalogue, NewFile
from shared.db import Database
from shared.events import TaskCompleted, TaskDefined, TaskReady, TaskRegistered, TaskReleased
from shared.runtime.service import Service
from tests.handlers.events import deliver
from tests.handlers.task_definition.steps import define, end_files, path, put, rows_of, submit, task_row, value_of
from tests.handlers.task_definition.world import MERGING, an_input, analysis, output, production

NUMBERS = [
    {"type": "template", "param_type": "number", "value": "--skip=${SKIPEVENTS}"},
    {"type": "template", "param_type": "number", "value": "--seed=${RNDMSEED}", "offset": 500},
]


async def datasets(database: Database, task_id: int) -> dict:
    rows = await rows_of(database, "SELECT * FROM task_datasets WHERE task_id = $1 ORDER BY dataset_id", task_id)
    return {(row["type"], row["stream_name"], row["dataset_name"]): row for row in rows}


async def test_a_production_task_is_defined_and_waits_for_a_nucleus(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, emitted = await define(database, service, producer, production())
    assert emitted == [TaskDefined(task_id=task_id)]
    row = await task_row(database, task_id)
    assert (row["status"], row["error_dialog"], row["retry_at"]) == ("assigning", None, None)
    found = await datasets(database, task_id)
    master = found["input", "IN", "mc.evnt"]
    assert (master["status"], master["state"], master["master_id"]) == ("ready", "frozen", None)
    assert (master["n_files"], master["n_files_used"], master["n_events"], master["n_events_used"]) == (
        20,
        0,
        20_000,
        0,
    )
    assert found["output", "OUTPUT0", "mc.simulation"]["status"] == "ready"
    assert found["log", "LOG0", "mc.simulation.log"]["status"] == "ready"
    moves = await path(database, "task", task_id)
    assert [state for _, state in moves] == ["registered", "defined", "assigning"]
    template = await value_of(
        database, "SELECT job_parameters_template FROM job_parameters_templates WHERE task_id = $1", task_id
    )
    assert '"--IN=${IN} --out=${OUTPUT0}"' in str(template) or "--out=${OUTPUT0}" in str(template)
    names = await rows_of(database, "SELECT * FROM output_templates WHERE task_id = $1 ORDER BY out_temp_id", task_id)
    assert names[0]["file_name_template"] == f"simulation.{task_id}._${{SN/P}}.root.1"
    assert [(one["stream_name"], one["out_type"], one["serial_nr"]) for one in names] == [
        ("OUTPUT0", "output", 1),
        ("LOG0", "log", 1),
    ]


async def test_a_dataset_keeps_the_scope_that_it_was_given_or_has_in_the_catalogue(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    outputs = [output("simulation", dataset="special:mc.simulation")]
    task = production(
        jobParameters=[an_input("mc.evnt"), an_input("data.all/", "IN2", attributes="nosplit"), *outputs],
        mergeOutput=True,
        **MERGING,
    )
    task_id, _ = await define(database, service, producer, task)
    assert (await task_row(database, task_id))["error_dialog"] is None
    scopes = {name: row["scope"] for (_, _, name), row in (await datasets(database, task_id)).items()}
    assert scopes == {
        "mc.evnt": "mc", "data.a": "data", "data.b": "data", "mc.simulation": "special",
        "panda.um.mc.simulation": "special", "mc.simulation.log": "mc", "panda.um.mc.simulation.log": "mc",
    }  # fmt: skip


async def test_ten_scouts_worth_of_files_is_opened_first(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    one, _ = await define(database, service, producer, production("one", nFilesPerJob=1))
    two, _ = await define(database, service, producer, production("two", nFilesPerJob=1, skipScout=True))
    assert (await datasets(database, one))["input", "IN", "mc.evnt"]["n_files_to_be_used"] == 10
    assert (await datasets(database, two))["input", "IN", "mc.evnt"]["n_files_to_be_used"] == 20


async def test_event_level_splitting_makes_one_unit_for_each_range(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    parameters = production(nFilesPerJob=None, nEventsPerJob=300, nEventsPerInputFile=1000, nEvents=2450)
    parameters["jobParameters"] = [*parameters["jobParameters"], *NUMBERS]
    task_id, _ = await define(database, service, producer, parameters)
    units = await rows_of(database, "SELECT * FROM task_files WHERE task_id = $1 ORDER BY file_id", task_id)
    assert [(one["start_event"], one["end_event"], one["n_events"], one["first_event"]) for one in units] == [
        (0, 299, 300, 1), (300, 599, 300, 301), (600, 899, 300, 601), (900, 999, 100, 901),
        (0, 299, 300, 1001), (300, 599, 300, 1301), (600, 899, 300, 1601), (900, 999, 100, 1901),
        (0, 299, 300, 2001), (300, 449, 150, 2301),
    ]  # fmt: skip
    assert {one["lfn"] for one in units} == {f"EVNT._{n:06d}.root" for n in (1, 2, 3)}
    master = (await datasets(database, task_id))["input", "IN", "mc.evnt"]
    assert (master["n_files"], master["n_events"], master["n_files_to_be_used"]) == (10, 2450, 10)
    seeds = (await datasets(database, task_id))["random_seed", "RNDMSEED", f"pseudo_random_seed_{task_id}"]
    assert (seeds["status"], seeds["attributes"]) == ("ready", {"offset": 500})
    assert (await task_row(database, task_id))["split_rule"]["randomSeedOffset"] == 500


async def test_a_task_without_input_gets_one_pseudo_unit_for_each_job(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    parameters = production(
        inputs=[], noInput=True, nEvents=25_500, nEventsPerJob=1000, nFilesPerJob=None, nucleus="ALPHA"
    )
    task_id, emitted = await define(database, service, producer, parameters)
    assert emitted == [TaskReady(task_id=task_id, nucleus="ALPHA")]
    units = await rows_of(database, "SELECT * FROM task_files WHERE task_id = $1 ORDER BY file_id", task_id)
    assert len(units) == 26
    assert {one["type"] for one in units} == {"pseudo_input"}
    assert [(one["n_events"], one["first_event"]) for one in (units[0], units[1], units[-1])] == [
        (1000, 1),
        (1000, 1001),
        (500, 25_001),
    ]
    pseudo = (await datasets(database, task_id))["pseudo_input", "SEQNUMBER", f"pseudo_dataset_{task_id}"]
    assert (pseudo["n_files"], pseudo["n_files_to_be_used"], pseudo["n_events"]) == (26, 10, 25_500)


async def test_a_container_is_expanded_and_analysis_is_ready_at_once(
    database: Database, service: Service, user: httpx.AsyncClient
) -> None:
    task_id, emitted = await define(database, service, user, analysis())
    assert emitted == [TaskReady(task_id=task_id)]
    found = await datasets(database, task_id)
    first, second = found["input", "IN", "data.a"], found["input", "IN", "data.b"]
    assert {first["container_name"], second["container_name"]} == {"data.all"}
    assert (first["n_files"], first["n_files_to_be_used"]) == (7, 7)
    assert (second["n_files"], second["n_files_to_be_used"]) == (30, 3)
    row = await task_row(database, task_id)
    assert (row["max_attempt"], row["max_failure"], row["ram_count"], row["ram_unit"]) == (10, 3, 2000, "MBPerCore")
    assert await value_of(database, "SELECT DISTINCT max_failure FROM task_files WHERE task_id = $1", task_id) == 3


async def test_the_limit_on_files_counts_over_all_datasets(
    database: Database, service: Service, user: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, user, analysis(nFiles=9))
    found = await datasets(database, task_id)
    assert [found["input", "IN", name]["n_files"] for name in ("data.a", "data.b")] == [7, 2]


async def test_a_secondary_dataset_follows_its_ratio_to_the_master(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    inputs = [an_input(), an_input("mc.minbias", "MINBIAS", ratio=2)]
    task_id, _ = await define(database, service, producer, production("few", inputs, nFiles=4))
    found = await datasets(database, task_id)
    minbias = found["input", "MINBIAS", "mc.minbias"]
    assert minbias["master_id"] == found["input", "IN", "mc.evnt"]["dataset_id"]
    assert (minbias["n_files"], minbias["n_files_to_be_used"], minbias["attributes"]) == (8, 8, {"ratio": 2.0})


async def test_secondary_files_that_no_job_has_taken_serve_input_that_comes_later(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    inputs = [an_input(), an_input("mc.minbias", "MINBIAS", ratio=0.5)]
    task_id, _ = await define(database, service, producer, production("growing", inputs, nFiles=4, nucleus="ALPHA"))
    more = "UPDATE task_parameters SET task_parameters = task_parameters || $2 WHERE task_id = $1 RETURNING 1"
    assert await value_of(database, more, task_id, {"nFiles": 16}) == 1
    await put(database, task_id, "rerefine")
    await deliver(database, service, TaskRegistered(task_id=task_id))
    row = await task_row(database, task_id)
    assert (row["status"], row["error_dialog"]) == ("ready", None)  # 16 units in jobs of two need the 8 files there are
    found = await datasets(database, task_id)
    assert [found["input", *key]["n_files"] for key in (("IN", "mc.evnt"), ("MINBIAS", "mc.minbias"))] == [16, 8]


async def test_too_few_files_of_a_secondary_dataset_break_the_task_with_the_numbers(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    inputs = [an_input(), an_input("mc.minbias", "MINBIAS")]
    task_id, emitted = await define(database, service, producer, production("many", inputs))
    assert emitted == [TaskCompleted(task_id=task_id, status="broken")]
    row = await task_row(database, task_id)
    assert row["status"] == "broken"
    assert "8 files" in row["error_dialog"]
    found = {name: one["status"] for (_, _, name), one in (await datasets(database, task_id)).items()}
    assert found.pop("mc.minbias") == "broken" and set(found.values()) == {"failed"}
    assert await value_of(database, "SELECT count(*) FROM catalogue.datasets WHERE name = 'mc.many'") == 0


async def test_a_boundary_of_a_group_is_a_lumi_block_and_its_files_lie_together(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    blocks = (2, 1, 2, 1, 3)
    files = [{"lfn": f"L.{number}.root", "size_bytes": 10, "n_events": 50, "lumi_block": block}
             for number, block in enumerate(blocks)]  # fmt: skip
    async with database.begin(reason="a dataset with luminosity blocks") as work:
        lumi = {"scope": "data", "name": "data.lumi", "files": files}
        await import_catalogue(work.connection, {"format": "orrery-catalogue/1", "datasets": [lumi]})
    for group, expected in ((3, [1, 1, 2, 2, 3]), (None, [None] * 5)):
        task = production(f"lumi.{group}", [an_input("data.lumi")], groupBoundaryID=group)
        task_id, _ = await define(database, service, producer, task)
        found = await rows_of(
            database,
            "SELECT boundary_id FROM task_files WHERE task_id = $1 AND type = 'input' ORDER BY file_id",
            task_id,
        )
        assert [row["boundary_id"] for row in found] == expected


@pytest.mark.parametrize(
    ("rule", "ratio", "told"),
    [
        ({"nFiles": 4, "nEventsPerJob": 250}, 1, "16 files or ranges of events of the master need 16"),
        ({"nFiles": 10, "nFilesPerJob": 1}, 0.5, "10 files or ranges of events of the master need 10"),
        ({"nFiles": 2, "nEventsPerJob": 250}, 1, None),  # eight ranges
        ({"nFiles": 8, "nFilesPerJob": 1}, 0.5, None),
        ({"nFiles": 16, "nFilesPerJob": 2}, 0.5, None),
    ],
)
async def test_the_ratio_is_checked_in_the_units_that_jobs_take(
    database: Database, service: Service, producer: httpx.AsyncClient, rule: dict[str, Any], ratio: float,
    told: str | None,
) -> None:  # fmt: skip
    inputs = [an_input(), an_input("mc.minbias", "MINBIAS", ratio=ratio)]
    task_id, _ = await define(database, service, producer, production("ranges", inputs, **rule))
    row = await task_row(database, task_id)
    if told is None:
        found = (await datasets(database, task_id))["input", "MINBIAS", "mc.minbias"]
        assert (row["status"], found["n_files"]) == ("assigning", 8)
    else:
        assert row["status"] == "broken" and "mc.minbias has 8 files" in row["error_dialog"]
        assert told in row["error_dialog"]


async def test_shared_secondaries_need_no_ratio(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    inputs = [an_input(), an_input("mc.minbias", "DBR", attributes="nosplit,repeat")]
    task_id, _ = await define(database, service, producer, production("database", inputs))
    shared = (await datasets(database, task_id))["input", "DBR", "mc.minbias"]
    assert (shared["n_files"], shared["attributes"]) == (8, {"nosplit": True, "repeat": True})


async def test_merged_outputs_have_unmerged_datasets_beside_them(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production(mergeOutput=True, **MERGING))
    found = await datasets(database, task_id)
    final = found["output", "OUTPUT0", "mc.simulation"]
    unmerged = found["trn_output", "TRN_OUTPUT0", "panda.um.mc.simulation"]
    assert unmerged["template_id"] == final["dataset_id"]
    assert ("trn_log", "TRN_LOG0", "panda.um.mc.simulation.log") in found
    names = await rows_of(database, "SELECT * FROM output_templates WHERE task_id = $1 ORDER BY out_temp_id", task_id)
    assert [(one["out_type"], one["stream_name"]) for one in names] == [
        ("output", "OUTPUT0"),
        ("log", "LOG0"),
        ("trn_log", "LOG0"),
        ("trn_output", "OUTPUT0"),
    ]
    assert names[3]["file_name_template"].startswith("panda.um.simulation.")


async def test_delivering_the_event_twice_defines_the_task_once(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    assert await deliver(database, service, TaskRegistered(task_id=task_id)) == ()
    assert await value_of(database, "SELECT count(*) FROM task_files WHERE task_id = $1", task_id) == 20


async def test_a_child_waits_for_its_parent_and_is_let_go_when_it_ends(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    parent = await submit(producer, production("parent"))
    child, emitted = await define(database, service, producer, production("child"), parent_tid=parent)
    assert emitted == []
    row = await task_row(database, child)
    assert (row["status"], row["old_status"]) == ("pending", "registered")
    assert row["retry_at"] - row["state_change_time"] == timedelta(minutes=60)
    assert f"parent task {parent}" in row["error_dialog"]
    await put(database, parent, "done")
    await deliver(database, service, TaskCompleted(task_id=parent, status="done"))
    assert (await task_row(database, child))["retry_at"] < row["retry_at"]
    await put(database, child, "registered", old_status=None)
    emitted = list(await deliver(database, service, TaskReleased(task_id=child, status="registered", reason="test")))
    assert emitted == [TaskDefined(task_id=child)]


@pytest.mark.parametrize("ended", ["failed", "broken", "aborted"])
async def test_children_of_a_corrupted_parent_are_killed(
    database: Database, service: Service, producer: httpx.AsyncClient, ended: str
) -> None:
    parent = await submit(producer, production("parent"))
    child, _ = await define(database, service, producer, production("child"), parent_tid=parent)
    await put(database, parent, ended)
    await deliver(database, service, TaskCompleted(task_id=parent, status=ended))
    row = await task_row(database, child)
    assert row["status"] == "aborting"
    assert f"its parent {parent} ended {ended}" in row["error_dialog"]


async def test_an_open_dataset_is_looked_at_again_until_it_is_frozen(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    growing = [an_input("data.growing")]
    parameters = production("growing", growing, runUntilClosed=True, nucleus="ALPHA", nFilesPerJob=1)
    task_id, emitted = await define(database, service, producer, parameters)
    assert emitted == []
    assert "still open" in (await task_row(database, task_id))["error_dialog"]
    catalogue = BuiltInCatalogue()
    async with database.begin(reason="test") as work:
        files = [NewFile("data.growing", f"G.{n}.root", 10, "ALPHA_DATADISK", 5) for n in range(3)]
        assert await catalogue.add_files(work.connection, files) == 3
    await put(database, task_id, "registered")
    assert await deliver(database, service, TaskRegistered(task_id=task_id)) == (
        TaskReady(task_id=task_id, nucleus="ALPHA"),
    )
    async with database.begin(reason="test") as work:
        await catalogue.add_files(work.connection, [NewFile("data.growing", "G.3.root", 10, "ALPHA_DATADISK", 5)])
    await put(database, task_id, "defined")
    await deliver(database, service, TaskRegistered(task_id=task_id))
    master = (await datasets(database, task_id))["input", "IN", "data.growing"]
    assert (master["n_files"], master["n_files_to_be_used"], master["n_events"]) == (4, 4, 20)
    await end_files(database, task_id, finished=4)
    await put(database, task_id, "defined")
    await deliver(database, service, TaskRegistered(task_id=task_id))
    row = await task_row(database, task_id)
    assert (row["status"], row["old_status"]) == ("pending", "defined")
    async with database.begin(reason="test") as work:
        await catalogue.freeze(work.connection, ["data.growing"])
    await put(database, task_id, "defined")
    emitted = list(await deliver(database, service, TaskReleased(task_id=task_id, status="defined", reason="")))
    assert emitted == [TaskReady(task_id=task_id, nucleus="ALPHA")]


async def test_an_empty_input_that_is_allowed_lets_the_task_finish(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    parameters = production("empty", [an_input("data.growing")], allowEmptyInput=True)
    task_id, _ = await define(database, service, producer, parameters)
    assert (await task_row(database, task_id))["status"] == "finishing"


async def test_names_and_patterns_choose_files(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    chosen = [an_input(include="_00000[1-5]", exclude="2\\.root")]
    task_id, _ = await define(database, service, producer, production("chosen", chosen))
    lfns = [row["lfn"] for row in await rows_of(database, "SELECT lfn FROM task_files ORDER BY file_id")]
    assert lfns == [f"EVNT._{n:06d}.root" for n in (1, 3, 4, 5)]
    assert task_id


async def test_files_by_physical_name_are_the_input_of_a_task_without_datasets(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    names = ["root://a/f.root^100", "root://a/g.root^50", "root://a/h.root^70"]
    read = [{"type": "constant", "value": '-i "${IN/T}"'}]
    task = production(inputs=[], noInput=True, pfnList=names, nFilesPerJob=2, nucleus="ALPHA")
    task_id, _ = await define(database, service, producer, {**task, "jobParameters": [*read, *task["jobParameters"]]})
    [master] = await rows_of(database, "SELECT * FROM task_datasets WHERE type = 'pseudo_input'")
    assert (master["stream_name"], master["n_files"], master["n_events"]) == ("IN", 3, 220)
    assert (await task_row(database, task_id))["split_rule"]["nFilesPerJob"] == 2
    files = await rows_of(database, "SELECT * FROM task_files WHERE task_id = $1 ORDER BY file_id", task_id)
    assert [(one["lfn"], one["n_events"], one["first_event"]) for one in files] == [
        ("root://a/f.root", 100, 1),
        ("root://a/g.root", 50, 101),
        ("root://a/h.root", 70, 151),
    ]


async def test_a_search_of_hyper_parameters_has_one_unit_and_its_training_data_follow_it(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    items = [an_input("mc.evnt", "IN_DATA", attributes="nosplit,repeat"), output("metrics")]
    search = {"hpoWorkflow": True, "totNumJobs": 4, "nEvents": 2, "nEventsPerJob": 1, "nFilesPerJob": None}
    request = {"hpoRequestData": {"max_points": 4, "num_points_per_generation": 2}}
    task = production(noInput=True, jobParameters=items, nucleus="ALPHA", **search, **request)
    task_id, emitted = await define(database, service, producer, task)
    assert emitted == [TaskReady(task_id=task_id, nucleus="ALPHA")]
    found = await datasets(database, task_id)
    pseudo = found["pseudo_input", "SEQNUMBER", f"pseudo_dataset_{task_id}"]
    assert (pseudo["status"], pseudo["n_files"], pseudo["n_files_to_be_used"], pseudo["n_events"]) == ("ready", 1, 1, 1)
    training = found["input", "IN_DATA", "mc.evnt"]
    assert (training["status"], training["n_files"], training["master_id"]) == ("ready", 20, pseudo["dataset_id"])
    rule = (await task_row(database, task_id))["split_rule"]
    assert (rule["nEsConsumers"], rule["totNumJobs"], rule["nPointsPerGeneration"]) == (2, 4, 2)
