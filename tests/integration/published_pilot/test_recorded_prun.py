"""What prun sent is run by the published pilot, to the end: scripts write the files that their command lines name.

The stand-in takes the options of PanDA's scripts; nothing that it writes is known from the lists of a job.
"""

from __future__ import annotations

import time
import zlib
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.auth import Authority
from tests.drawn import THIRD
from tests.integration.published_client.package import published_client
from tests.integration.published_client.person import Person
from tests.integration.published_client.test_recordings import recorder, token
from tests.integration.published_pilot import world
from tests.integration.published_pilot.conftest import System
from tests.integration.published_source import NotHere

pytestmark = pytest.mark.timeout(900)
ENDED_WITHIN_S = 600.0
USER = "jdoe"


def sent_by_prun(folder: Path, *options: str) -> dict[str, Any]:
    """The task that the published client sends for a command line."""
    try:
        client = published_client()
    except NotHere as error:
        pytest.skip(str(error))
    installed = folder / "installed" / "etc" / "panda"
    installed.mkdir(parents=True)
    (installed / "share").symlink_to(client / "share")
    own = {"PANDA_SYS": str(folder / "installed"), "PANDA_AUTH": "oidc", "PANDA_AUTH_VO": "atlas"}
    with recorder() as (address, tasks):
        said = Person(client, folder, address, {**own, "PANDA_AUTH_ID_TOKEN": token()}).run("prun", *options)
    assert len(tasks) == 1, said.text
    return dict(tasks[0])


class Owner:
    """Submits as the person who is in the recorded names."""

    def __init__(self, system: System) -> None:
        authority = Authority.from_file(system.directory / "key.pem")
        self._system, self._headers = system, {"Authorization": f"Bearer {authority.issue(USER, ['user'])}"}

    def submit(self, task: dict[str, Any]) -> int:
        url, body = f"{self._system.launcher.address}/api/v1/task/submit", {"task_parameters": task}
        answer = httpx.post(url, json=body, headers=self._headers, trust_env=False, timeout=60).json()
        assert answer["success"], answer
        return int(answer["data"])


def run_to_its_end(system: System, task_id: int, directory: Path, experiment: str = "generic") -> list[dict[str, Any]]:
    """Pilots one after the other, as long as the task has jobs for them; its jobs in the order of their making."""
    deadline, n_pilots = time.monotonic() + ENDED_WITHIN_S, 0
    while (status := system.get("task/get_details", task_id=task_id)["status"]) not in ("done", "finished", "failed"):
        assert time.monotonic() < deadline, status
        assert status not in ("broken", "exhausted", "aborted"), system.get("task/get_details", task_id=task_id)
        if system.get("job/list", task_id=task_id, status="activated"):
            n_pilots += 1
            folder = directory / str(n_pilots)
            pilot = system.launcher.start(world.PRUN_QUEUE, folder, label="user", experiment=experiment)
            try:
                assert pilot.wait() == 0, pilot.text[-5000:]
            finally:
                pilot.end()
        time.sleep(0.5)
    assert status == "done", system.get("task/get_details", task_id=task_id)
    ids = [int(one["job_id"]) for one in system.get("job/list", task_id=task_id)]
    return [system.job(job_id) for job_id in sorted(ids)]


def of_script(jobs: list[dict[str, Any]], script: str) -> dict[str, Any]:
    [found] = [one["spec"] for one in jobs if script in one["spec"]["transformation"]]
    return dict(found)


def written(system: System, spec: dict[str, Any]) -> str:
    """The only output of a job beside its log, where its storage has it."""
    [lfn] = [one for one in spec["outFiles"].split(",") if one != spec["logFile"]]
    assert lfn in spec["jobPars"]
    return world.path_of(system.storages, f"user.{USER}", lfn).read_text()


@pytest.mark.drawn(1, THIRD)
def test_outputs_of_prun_with_a_build_are_merged_into_the_files_that_its_text_names(
    system: System, tmp_path: Path
) -> None:
    options = ["--exec", "sh run.sh %IN", "--inDS", world.READ_BY_PRUN, "--outputs", "out.root", "--bexec", "make"]
    task = sent_by_prun(tmp_path, *options, "--outDS", f"user.{USER}.run", "--mergeOutput", "--site", world.PRUN_QUEUE)
    jobs = run_to_its_end(system, Owner(system).submit(task), tmp_path)
    assert written(system, of_script(jobs, "buildGen")) == f"built of {task['buildSpec']['archiveName']}\n"
    run, merge = of_script(jobs, "runGen"), of_script(jobs, "runMerge")
    read = [one for one in run["inFiles"].split(",") if not one.endswith(".lib.tgz")]
    assert sorted(read) == sorted(world.FILES_OF_PRUN)
    assert written(system, run) == "".join(f"{name}\n" for name in read) == written(system, merge)
    [dataset] = {name for name in merge["realDatasets"].split(",") if "out.root" in name}
    files = system.get("catalogue/dataset", name=dataset, include_files=True)["files"]
    assert [one["lfn"] for one in files] == [one for one in merge["outFiles"].split(",") if one != merge["logFile"]]


@pytest.mark.drawn(2, THIRD)
def test_each_file_of_prun_that_matches_an_expression_is_in_its_dataset_with_what_the_payload_wrote(
    system: System, tmp_path: Path
) -> None:
    """Of the pilot's plug-ins those of one experiment look for such files: they leave out what else the job writes."""
    options = ["--exec", "sh run.sh %IN", "--inDS", world.READ_BY_PRUN, "--outputs", r"X:regex|hist_.*\.root"]
    task = sent_by_prun(tmp_path, *options, "--outDS", f"user.{USER}.any", "--noBuild", "--site", world.PRUN_QUEUE)
    [job] = run_to_its_end(system, Owner(system).submit(task), tmp_path, experiment="sphenix")
    spec = job["spec"]
    assert spec["outFiles"].split(",") == [r"regex|hist_.*\.root", spec["logFile"]]
    [dataset] = {name for name in spec["realDatasets"].split(",") if "_X" in name}
    files = system.get("catalogue/dataset", name=dataset, include_files=True)["files"]
    assert [one["lfn"] for one in files] == ["hist_1.root", "hist_2.root", "hist_3.root"]
    text = "".join(f"{name}\n" for name in spec["inFiles"].split(",")).encode()
    assert {(one["size_bytes"], one["checksum"]) for one in files} == {(len(text), f"ad:{zlib.adler32(text):08x}")}
    for one in files:
        assert world.path_of(system.storages, f"user.{USER}", one["lfn"]).read_bytes() == text
