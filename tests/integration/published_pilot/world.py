"""The example grid with a queue for each pilot of the tests, its storages in a directory, and tasks of one job."""

from __future__ import annotations

import hashlib
import zlib
from copy import deepcopy
from pathlib import Path
from typing import Any

from shared.model.grid import read_grid_folder
from tests.integration.one_process import ROOT

SITE_QUEUE = "CERN"
STORAGE = "CERN-PROD_DATADISK"
SCOPE = "user.tester"
INPUT_DATASET = "user.tester.numbers"
INPUT_FILE = "user.tester.numbers.txt"
INPUT = b"1\n2\n3\n" * 50
#: pilots of this version take scripts from two addresses only; the tests stand for this one
SCRIPT_URL = "http://pandaserver-doma.cern.ch:25080/trf/user/payload.sh"
SCRIPTS = SCRIPT_URL.rpartition("/")[0]
#: what a task of prun reads, and the queue at which it does
PRUN_QUEUE, READ_BY_PRUN, SCOPE_OF_PRUN = "PILOT_PRUN", "mc23_13p6TeV.601229.PhPy8EG_ttbar.deriv", "mc23_13p6TeV"
FILES_OF_PRUN = ("DAOD.1._000001.root", "DAOD.1._000002.root")
#: event service: its queues, the object store that its pilots write to, and what is processed there
EVENTS_QUEUE, QUEUE_WITH_LOG = "PILOT_EVENTS", "PILOT_EVENTS_LOG"
OBJECT_STORE, OBJECT_STORE_ID = "CERN-PROD_ES", 117
EVENTS_DATASET, FILES_OF_EVENTS = "user.tester.events", ("EVNT.1._000001.txt", "EVNT.1._000002.txt")
SCRIPT = b"""#!/bin/sh
# payload.sh OUTPUT HOW FOLDER: copies the input; "wait" waits until the test says go on, "fail" ends with code 3
echo "this payload begins"
if [ -e panda_secrets.json ]; then cp panda_secrets.json "$3/secrets"; fi
case "$2" in
    wait) while [ ! -e "$3/go" ]; do sleep 0.2; done ;;
    fail) echo "this payload fails" >&2; exit 3 ;;
esac
if [ -e user.tester.numbers.txt ]; then cat user.tester.numbers.txt > "$1"; else echo done > "$1"; fi
"""
#: what stands on worker nodes for the programs of event service
PROGRAMS = Path(__file__).parent / "event_service"

#: every page that pilots may ask of others: scripts of PanDA's client are stood for
PAGES = (
    {SCRIPT_URL: SCRIPT}
    | {
        f"{SCRIPTS}/{name}": (ROOT / "tests" / "field_scripts" / "stand_in.py").read_bytes()
        for name in ("buildGen-00-00-01", "runGen-00-00-02", "runMerge-00-00-02")
    }
    | {f"{SCRIPTS}/{name}": (PROGRAMS / "transform.py").read_bytes() for name in ("Sim_tf.py", "HITSMerge_tf.py")}
)


def grid(storages: Path, queues: list[str]) -> dict[str, Any]:
    """The files of a grid: queues like the one of the example, its storages in folders of `storages`."""
    files = read_grid_folder(ROOT / "deploy" / "examples" / "grid")
    for name in queues:
        queue = deepcopy(files["queues"][SITE_QUEUE])
        lists = {kind: [STORAGE] for kind in ("read_lan", "write_lan")}
        files["queues"][name] = queue | {"siteid": name, "nickname": name, "astorages": lists}
    for name, storage in files["storages"].items():
        for protocols in (storage.get("arprotocols") or {}).values():
            for protocol in protocols:
                protocol["path"] = f"{storages / name}/"
    _add_object_store(files)
    return files


def _add_object_store(files: dict[str, Any]) -> None:
    """Add a store of events, as CRIC describes one, and let the queues of event service use it."""
    protocol = {"id": 7, "endpoint": "s3://objects.test:443/", "path": "/orrery-events"}
    settings = {"access_key": "EventsPublic", "secret_key": "EventsPrivate", "is_secure": "yes"}
    files["storages"][OBJECT_STORE] = files["storages"][STORAGE] | {
        "ddm_endpoint_name": OBJECT_STORE, "ddm_spacetoken_name": "ES", "type": "OS_ES", "id": OBJECT_STORE_ID,
        "is_deterministic": False, "rprotocols": {"7": {"settings": settings}},
        "arprotocols": {activity: [protocol] for activity in ("read_lan", "read_wan", "write_lan", "write_wan")},
    }  # fmt: skip
    for queue in (files["queues"][name] for name in (EVENTS_QUEUE, QUEUE_WITH_LOG)):
        queue["jobseed"], queue["objectstores"] = "es", [{"os_bucket_id": OBJECT_STORE_ID}]
        queue["astorages"] = queue["astorages"] | {"es_events": [OBJECT_STORE]}


def place_input(storages: Path) -> dict[str, Any]:
    """Put the input files where their storage has them; the file in which the catalogue learns of them."""
    given = {
        (SCOPE, INPUT_DATASET): {INPUT_FILE: (INPUT, 1)},
        (SCOPE_OF_PRUN, READ_BY_PRUN): dict.fromkeys(FILES_OF_PRUN, (INPUT, 1)),
        (SCOPE, EVENTS_DATASET): {name: ("".join(events_of(name)).encode(), 10) for name in FILES_OF_EVENTS},
    }
    datasets = []
    for (scope, dataset), contents in given.items():
        files = []
        for name, (content, n_events) in contents.items():
            path = path_of(storages, scope, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            known = {"size_bytes": len(content), "checksum": f"ad:{zlib.adler32(content):08x}", "n_events": n_events}
            files.append({"lfn": name, **known})
        datasets.append({"scope": scope, "name": dataset, "files": files, "replicas": [{"storage": STORAGE}]})
    return {"format": "orrery-catalogue/1", "datasets": datasets}


def events_of(name: str) -> list[str]:
    """The lines of a file of ten events, which have the numbers that they have in their dataset."""
    first = FILES_OF_EVENTS.index(name) * 10 + 1
    return [f"{number}\n" for number in range(first, first + 10)]


def path_of(storages: Path, scope: str, lfn: str) -> Path:
    """Where a deterministic storage has a file."""
    digest = hashlib.md5(f"{scope}:{lfn}".encode(), usedforsecurity=False).hexdigest()
    return storages / STORAGE / Path(*scope.split(".")) / digest[:2] / digest[2:4] / lfn


def task(queue: str, how: str, folder: Path, *, has_input: bool = False, **changes: Any) -> dict[str, Any]:
    """A task of one job at a queue, which does its work as said; `folder`: where the test says go on."""
    name = f"user.tester.{queue.lower()}"
    output = f"{name}.$JEDITASKID.${{SN}}.txt"
    parameters: list[dict[str, Any]] = [
        {"type": "template", "param_type": "output", "value": output, "dataset": f"{name}.out"},
        {"type": "constant", "value": f"{how} {folder}"},
    ]
    if has_input:
        given = {"type": "template", "param_type": "input", "value": "${IN}", "dataset": f"{SCOPE}:{INPUT_DATASET}"}
        parameters.append(given)
    work: dict[str, Any] = {"nFilesPerJob": 1} if has_input else {"noInput": True, "nEvents": 1, "nEventsPerJob": 1}
    log = {"type": "template", "param_type": "log", "value": f"{name}.${{SN}}.log.tgz", "dataset": f"{name}.log"}
    return {
        "taskName": name, "vo": "atlas", "prodSourceLabel": "managed", "taskType": "prod",
        "processingType": "test", "userName": "tester", "skipScout": True, "architecture": "", "transPath": SCRIPT_URL,
        "coreCount": 1, "ramCount": 100, "cpuTime": 1, "cpuTimeUnit": "HS06sPerEvent", "maxAttempt": 1,
        "site": queue, "jobParameters": parameters, "log": log,
    } | work | changes  # fmt: skip
