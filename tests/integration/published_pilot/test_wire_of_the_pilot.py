"""The published pilot's own classes read job specifications and speak of ranges of events."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests import rows
from tests.integration.published_pilot import world
from tests.integration.published_pilot.conftest import System

pytestmark = pytest.mark.timeout(400)
QUEUE = "PILOT_SPECIFICATION"

READ_SPECIFICATION = """
import json, sys
from pilot.info.jobdata import JobData
spec = json.load(sys.stdin)
job = JobData(spec)
job.indata, (job.outdata, job.logdata) = job.prepare_infiles(spec), job.prepare_outfiles(spec)
job.workdir = "."
job.process_writetofile()
names = ["jobid", "taskid", "attemptnr", "maxcpucount", "maxwalltime", "looping_check", "allownooutput", "debug",
         "preprocess", "postprocess", "coprocess", "containeroptions", "pandasecrets", "writetofile",
         "noexecstrcnv", "is_eventservice", "is_hpo", "use_vp", "produserid"]
found = {name: getattr(job, name) for name in names}
for kind in ("indata", "outdata", "logdata"):
    found[kind] = [[one.lfn, one.scope, one.ddmendpoint, one.filesize, one.checksum] for one in getattr(job, kind)]
print(json.dumps(found))
"""

TAKE_AND_REPORT = """
import json, sys
import pilot.info  # of 3.11.5.1 its module for HTTPS cannot be imported before
from pilot.eventservice.communicationmanager.communicationmanager import CommunicationRequest
from pilot.eventservice.communicationmanager.plugins.pandacommunicator import PandaCommunicator
from pilot.util import https
class Args: capath = cacert = None
https.https_setup(Args, "3.7.0.36")
asked = json.load(sys.stdin)
wire = PandaCommunicator()
request = dict(request_type=CommunicationRequest.RequestType.RequestEvents, num_event_ranges=2, post_hook=None,
               jobid=asked["job"], jobsetid=asked["task"], taskid=asked["task"], num_ranges=2)
taken = wire.get_events(CommunicationRequest(request)).content
ids = [one["eventRangeID"] for one in taken]
zip_file = {"numEvents": 10, "objstoreID": 117, "lfn": "ES.zip", "fsize": 5, "pathConvention": 1000, "adler32": "0a"}
groups = [{"zipFile": zip_file, "eventRanges": [{"eventRangeID": ids[0], "eventStatus": "finished"}]}]
failed = [{"eventRangeID": ids[1], "eventStatus": "failed", "errorCode": 1305}, {"eventRangeID": "x"}]
answers = []
for version, report in ((1, groups), (0, failed)):
    update = dict(request_type=CommunicationRequest.RequestType.UpdateEvents, post_hook=None,
                  update_events={"version": version, "eventRanges": json.dumps(report)})
    answers.append(wire.update_events(CommunicationRequest(update)).content)
print(json.dumps({"taken": taken, "answers": answers}))
"""


@pytest.fixture(scope="module")
def specification(system: System, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The job of a task that uses whatever a specification can say, as a pilot gets it."""
    folder = tmp_path_factory.mktemp("specification")
    task = world.task(
        QUEUE, "work", folder, has_input=True, useSecrets=True, noExecStrCnv=True, debugMode=True, noLoopingCheck=True,
        walltime=7200, altStageOut="on",
        multiStepExec={
            "preprocess": {"command": "${TRF}", "args": "--before ${TRF_ARGS}"},
            "postprocess": {"command": "after.sh", "args": "it's over"},
            "containerOptions": {"containerExec": "echo", "containerImage": "busybox"},
        },
    )  # fmt: skip
    task["jobParameters"][0]["allowNoOutput"] = True
    task["jobParameters"][-1]["value"] = "--inputs=@${IN/F}"
    system.submit(task)
    headers = {"Authorization": f"Bearer {system.launcher.token}", "Accept": "application/json"}
    form = {"siteName": QUEUE, "prodSourceLabel": "managed"}
    spec = system.http.post("/server/panda/getJob", data=form, headers=headers).json()
    assert spec["StatusCode"] == 0, spec
    return dict(spec)


def test_every_field_of_a_specification_is_what_the_pilot_makes_of_it(
    system: System, specification: dict[str, Any], tmp_path: Path
) -> None:
    spec = specification
    read = json.loads(system.launcher.run_inside(READ_SPECIFICATION, tmp_path, json.dumps(spec)))
    output, log = spec["outFiles"].split(",")
    assert (read["jobid"], read["taskid"], read["attemptnr"]) == (str(spec["PandaID"]), str(spec["taskID"]), 1)
    assert (read["maxcpucount"], read["maxwalltime"], read["looping_check"]) == (7200, spec["maxWalltime"], False)
    assert (read["debug"], read["noexecstrcnv"], read["allownooutput"]) == (True, True, output)
    assert (read["is_eventservice"], read["is_hpo"], read["use_vp"]) == (False, False, False)
    assert read["preprocess"]["command"] == world.SCRIPT_URL
    assert read["preprocess"]["args"].startswith(f"--before {output} work")
    assert read["postprocess"] == {"command": "after.sh", "args": "it's over"} and read["coprocess"] == {}
    assert read["containeroptions"] == {"containerExec": "echo", "containerImage": "busybox"}
    assert spec["altStageOut"] == "on"
    assert json.loads(read["pandasecrets"]) == {"LOGIN": 'a "secret"'} and read["produserid"] == "tester"
    (source,) = read["indata"]
    assert source[:4] == [world.INPUT_FILE, world.SCOPE, world.STORAGE, len(world.INPUT)]
    assert [one[:3] for one in (*read["outdata"], *read["logdata"])] == [
        [output, "user.tester", world.STORAGE], [log, "user.tester", world.STORAGE],
    ]  # fmt: skip
    (written,) = tmp_path.glob("tmpin_*")
    assert written.read_text().split() == ["--inputs", world.INPUT_FILE]


def test_the_pilots_communicator_takes_ranges_and_reports_them(
    system: System, specification: dict[str, Any], tmp_path: Path
) -> None:
    asyncio.run(_add_ranges(system.database.url, specification["PandaID"]))
    asked = {"job": specification["PandaID"], "task": specification["taskID"]}
    found = json.loads(system.launcher.run_inside(TAKE_AND_REPORT, tmp_path, json.dumps(asked)))
    assert [(one["startEvent"], one["lastEvent"], one["LFN"]) for one in found["taken"]] == [
        (1, 10, world.INPUT_FILE), (11, 20, world.INPUT_FILE),
    ]  # fmt: skip
    assert found["answers"] == [
        {"StatusCode": 0, "Returns": [True], "Command": {}},
        {"StatusCode": 0, "Returns": [True, False], "Command": {}},
    ]
    pairs = json.dumps([{"task_id": asked["task"], "panda_id": asked["job"]}])
    states = system.get("event/get_event_range_statuses", job_task_ids=pairs)[str(asked["job"])]
    assert sorted(one["status"] for one in states.values()) == ["failed", "finished"]


async def _add_ranges(url: str, job_id: int) -> None:
    """Three ranges of the job's input, as job generation will make them."""
    connection = await asyncpg.connect(url)
    try:
        file = await connection.fetchrow("SELECT * FROM job_files WHERE job_id = $1 AND type = 'input'", job_id)
        assert file is not None
        for number in (1, 2, 3):
            values = {"task_id": file["task_id"], "dataset_id": file["dataset_id"], "file_id": file["file_id"]}
            events = {"def_min_event_id": number * 10 - 9, "def_max_event_id": number * 10}
            await rows.insert(connection, "event_ranges", {**values, **events, "job_process_id": number})
    finally:
        await connection.close()
