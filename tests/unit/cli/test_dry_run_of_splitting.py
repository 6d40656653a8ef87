"""`orrery dry-run split`: jobs on a world file, by the code that makes live ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.cli.commands.dry_runs import dry_run_of
from services.cli.dry_run.splitting import contents, split
from services.task_definition.tasks.policy.task_file import InputPart, parse_task_file
from tests.handlers.grids import small_grid
from tests.handlers.task_definition.world import an_input, output, production

EVENTS = {
    "dataset": "mc.evnt", "files": 20, "bytes": 20_000_000, "events": 20_000,
    "replicas": [{"storage": "ALPHA_DATADISK", "files": 20, "bytes": 20_000_000}],
}  # fmt: skip


@pytest.fixture
def world(tmp_path: Any) -> Any:
    path = tmp_path / "world.json"
    files = small_grid()
    wanted = ("queues", "sites", "storages")
    content = {"format": "orrery-world/1", "now": "2026-01-01T00:00:00Z", **{name: files[name] for name in wanted}}
    path.write_text(json.dumps(content))
    return path


def a_task(inputs: list[dict[str, Any]] | None = None, items: Any = None, **changes: Any) -> dict[str, Any]:
    parameters = production("split", items, **{"coreCount": 1, "skipScout": True, **changes})
    return {"parameters": parameters, "state": {"nucleus": "ALPHA"}, "inputs": inputs or [EVENTS]}


def jobs_of(world: Any, task: dict[str, Any]) -> list[Any]:
    found = split(dry_run_of("job-brokerage", world, [], []), parse_task_file(task))
    assert found.jobs, found.reasons
    return found.jobs


def test_the_verb_prints_files_events_needs_queue_and_why_each_job_ended(orrery: Any, world: Any) -> None:
    outcome = orrery("dry-run", "split", "--world", str(world), "--task", "-", stdin=json.dumps(a_task()))
    assert outcome.code == 0, outcome.err + outcome.out
    found = json.loads(outcome.out)
    assert len(found["jobs"]) == 10 and found["leftover"] == [] and found["queues"]
    first, last = found["jobs"][0], found["jobs"][-1]
    assert first["files"] == ["mc.evnt._000001", "mc.evnt._000002"]
    assert first["events"] == 2000 and first["input_bytes"] == 2_000_000
    assert first["queue"] and first["ram_mb"] and first["disk_mb"] and first["walltime_s"] >= 0
    assert first["ended"] == "2 files are the most of a job" and last["ended"] == "the input ends"


def test_every_file_is_in_one_job_whatever_the_rules(world: Any) -> None:
    for rules in ({"nFilesPerJob": 3}, {"nFilesPerJob": None, "nGBPerJob": 1}, {"nFilesPerJob": None}):
        jobs = jobs_of(world, a_task(**rules))
        assert sorted(name for job in jobs for name in job.files) == [f"mc.evnt._{n:06d}" for n in range(1, 21)]


def test_files_are_cut_into_ranges_where_the_rules_ask_for_events(world: Any) -> None:
    task = a_task(nFilesPerJob=None, nEventsPerJob=250, nEventsPerInputFile=1000)
    jobs = jobs_of(world, task)
    assert len(jobs) == 80 and jobs[1].files == ["mc.evnt._000001[250-499]"] and jobs[1].events == 250


def test_files_that_the_task_file_lists_are_taken_as_they_are(world: Any) -> None:
    content = [{"lfn": f"f{n}", "bytes": 10, "events": 7, "boundary": n // 2} for n in range(4)]
    listed = {**EVENTS, "files": 4, "bytes": 40, "events": 28, "content": content}
    jobs = jobs_of(world, a_task([listed], nFilesPerJob=None, groupBoundaryID=3))
    assert [job.files for job in jobs] == [["f0", "f1"], ["f2", "f3"]]
    assert jobs[0].ended == "it is one whole boundary"


def test_jobs_that_the_user_describes_show_files_outputs_and_command(world: Any) -> None:
    jobs = "".join(
        f"<job><inds><name>mc.evnt</name><file>f{n}</file><file>f{n + 2}</file></inds><output>o{n}</output></job>"
        for n in range(2)
    )
    items = [an_input(), {"type": "constant", "value": "-p ${XML_EXESTR} -o ${XML_OUTMAP}"}]
    items.append(output("split", hidden=True))
    text = f"<submission><command>run.sh</command>{jobs}</submission>"
    task = a_task(jobParameters=items, loadXML=text, nFilesPerJob=None)
    found = jobs_of(world, task)
    assert [job.files for job in found] == [["f0", "f2"], ["f1", "f3"]]
    assert [(job.outputs, job.command) for job in found] == [(["o0"], "run.sh"), (["o1"], "run.sh")]
    assert found[0].input_bytes == 2_000_000
    listed = {**EVENTS, "files": 1, "content": [{"lfn": "f0", "bytes": 10, "events": 7}]}
    with pytest.raises(ValueError, match="f2, f1, f3 is named by the task and is no file"):
        jobs_of(world, {**task, "inputs": [listed]})


def test_secondary_files_follow_and_one_that_runs_out_is_told(world: Any) -> None:
    second = {"dataset": "mc.minbias", "master": False, "files": 8, "bytes": 8, "events": 8}
    items = [an_input(), an_input("mc.minbias", "IN_MINBIAS", ratio=1.0)]
    found = split(
        dry_run_of("job-brokerage", world, [], []), parse_task_file(a_task([EVENTS, second], items, nFilesPerJob=2))
    )
    assert [len(job.secondary["mc.minbias"]) for job in found.jobs] == [2, 2, 2, 2]
    assert len(found.leftover) == 12 and "mc.minbias has not enough unused files" in found.reasons[0]


def test_totals_are_shared_out_exactly() -> None:
    files = contents(InputPart(dataset="d", files=3, bytes=10, events=10))
    assert [(one.bytes, one.events) for one in files] == [(4, 4), (3, 3), (3, 3)]


def test_a_task_that_no_queue_can_run_has_no_jobs_and_the_reason(world: Any) -> None:
    found = split(dry_run_of("job-brokerage", world, [], []), parse_task_file(a_task(ramCount=900_000, ramUnit="MB")))
    assert found.jobs == [] and found.reasons
