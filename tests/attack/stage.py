"""What there is to attack: for ada of atlas and bob of cms a task in each state, with canaries in all that they own."""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from services.cli.simulated_pilots.command_line import named_files
from shared.auth import access
from shared.auth.access import AccessRule, Whose
from shared.model.grid import read_grid_folder
from tests.attack.canaries import Canaries
from tests.attack.people import People, Person
from tests.attack.system import ROOT

#: where all work of the stage goes, and where its input is
QUEUE, SITE, STORAGE = "CERN", "CERN-PROD", "CERN-PROD_DATADISK"
GRID = ROOT / "deploy" / "examples" / "grid"
N_JOBS = 5
WITHIN_S = 30.0
UPLOAD = "/api/v1/file_server/upload_cache_file"


@dataclass
class Victim:
    """Somebody, and the ids and names of what is theirs. `jobs`: by the state in which a pilot left them.

    `decision_id`: of a decision about the task.
    """

    person: Person
    production: Person
    pilot: Person
    whose: Whose
    task_id: int = 0
    spare_task_id: int = 0
    periodic_id: int = 0
    decision_id: int = 0
    jobs: dict[str, int] = field(default_factory=dict)
    dataset: str = ""
    sandbox: str = ""
    sandbox_content: bytes = b""
    secret_key: str = ""

    @property
    def vo(self) -> str:
        return self.whose.vo


class Stage:
    """Arranges it all over HTTP, and waits until nothing moves any more."""

    def __init__(self, people: People, canaries: Canaries) -> None:
        self.people, self.canaries = people, canaries
        self.ada = self._victim("ada", "atlas")
        self.bob = self._victim("bob", "cms")

    @property
    def victims(self) -> tuple[Victim, Victim]:
        return self.ada, self.bob

    def set(self) -> None:
        """The grid for everybody, then each one's own."""
        operator = self.people.operator
        operator.done(operator.post("/api/v1/grid/load", {"files": _grid(), "keep_times": False}))
        for victim in self.victims:
            self._data_of(victim)
        for victim in self.victims:
            victim.task_id = self.submit(victim, "first")
            victim.spare_task_id = self.submit(victim, "spare")
            body = {"task_parameters": self.task_of(victim, "series"), "period_s": 86_400}
            body["starts_at"] = "2100-01-01T00:00:00Z"
            victim.periodic_id = int(victim.person.done(victim.person.post("/api/v1/periodic_task/submit", body)))
        for victim in self.victims:
            self._jobs_of(victim)

    def _victim(self, name: str, vo: str) -> Victim:
        people = self.people
        return Victim(people[f"{name}@{vo}"], people[f"production@{vo}"], people[f"pilot@{vo}"], Whose(name, vo))

    def canary(self, victim: Victim, what: str, rule: AccessRule = access.DETAILS) -> str:
        return self.canaries.make(f"{what} of {victim.person.label}", rule, victim.whose)

    def _data_of(self, victim: Victim) -> None:
        """A dataset of the VO, a secret and an archive of the person."""
        name, file = (self.canary(victim, one, access.MEMBERS) for one in ("dataset", "file of the dataset"))
        victim.dataset = f"{_scope_of(victim)}.{name}"
        content = {
            "format": "orrery-catalogue/1",
            "datasets": [
                {
                    "scope": _scope_of(victim),
                    "name": victim.dataset,
                    "state": "open",
                    "files": [
                        {"lfn": f"{file}.{number}.root", "size_bytes": 1_000_000, "n_events": 100}
                        for number in range(N_JOBS)
                    ],
                    "replicas": [{"storage": STORAGE}],
                }
            ],
        }
        victim.production.done(victim.production.post("/api/v1/catalogue/import", content))
        victim.secret_key = self.canary(victim, "key of a secret", access.OWN)
        secret = {"key": victim.secret_key, "value": self.canary(victim, "secret", access.OWN)}
        victim.person.done(victim.person.post("/api/v1/creds/set_user_secrets", secret))
        victim.sandbox = f"sources.{self.canary(victim, 'name of an archive')}.tar.gz"
        victim.sandbox_content = archive(self.canary(victim, "content of an archive"))
        victim.person.done(upload(victim.person, victim.sandbox, victim.sandbox_content))

    def task_of(self, victim: Victim, what: str, by: Person | None = None, **changes: Any) -> dict[str, Any]:
        """An analysis task on the victim's input, with a canary in each text that its owner may choose.

        `by`: who submits it, and so whose names it writes; the victim unless it is said.
        """
        said = {one: self.canary(victim, f"{one} of the {what} task") for one in ("name", "parameter", "output", "log")}
        owner = (by or victim.person).name
        scope = f"user.{owner.replace(':', '-')}"
        name = f"{scope}.{said['name']}"
        written = f"{scope}.{self.canary(victim, f'dataset of the {what} task', access.MEMBERS)}"
        source = f"--sourceURL http://127.0.0.1 -r . -a {victim.sandbox} -p {said['parameter']}"
        return {
            "taskName": name,
            "userName": owner,
            "vo": victim.vo,
            "prodSourceLabel": "user",
            "taskType": "anal",
            "processingType": "panda-client-jedi-run",
            "taskPriority": 1000,
            "architecture": "",
            "transPath": "http://127.0.0.1/trf/user/runGen-00-00-02",
            "coreCount": 1,
            "ramCount": 1000,
            "cpuTime": 1,
            "cpuTimeUnit": "HS06sPerEvent",
            "nFilesPerJob": 1,
            "site": QUEUE,
            "maxAttempt": 1,
            "jobParameters": [
                {"type": "constant", "value": source},
                {
                    "type": "template",
                    "param_type": "input",
                    "value": '-i "${IN/T}"',
                    "dataset": f"{_scope_of(victim)}:{victim.dataset}",
                },
                {
                    "type": "template",
                    "param_type": "output",
                    "value": f"--output={written}.${{SN}}.{said['output']}.root",
                    "dataset": f"{written}.$JEDITASKID.out",
                },
            ],
            "log": {
                "type": "template",
                "param_type": "log",
                "value": f"{written}.${{SN}}.{said['log']}.tgz",
                "dataset": f"{written}.$JEDITASKID.log",
            },
            **changes,
        }

    def submit(self, victim: Victim, what: str, **changes: Any) -> int:
        answer = victim.person.post("/api/v1/task/submit", {"task_parameters": self.task_of(victim, what, **changes)})
        return int(victim.person.done(answer))

    def jobs_of(self, person: Person, task_id: int, status: str | None = None) -> list[dict[str, Any]]:
        query = {"task_id": task_id} | ({} if status is None else {"status": status})
        return list(person.done(person.get("/api/v1/job/list", **query)))

    def wait_for_jobs(self, victim: Victim, task_id: int, n_jobs: int) -> None:
        """Until so many jobs of a task wait for pilots."""
        task = f"task {task_id} of {victim.person.label}"
        wait_until(lambda: len(self.jobs_of(victim.person, task_id, "activated")) >= n_jobs, f"jobs of {task}")

    def _jobs_of(self, victim: Victim) -> None:
        """Jobs that run, failed, finished, and wait; with canaries in what a pilot says of them."""
        for task_id in (victim.task_id, victim.spare_task_id):
            self.wait_for_jobs(victim, task_id, N_JOBS)
        explained = victim.person.done(victim.person.get("/api/v1/explain/task", task_id=victim.task_id))
        victim.decision_id = int(explained["decisions"][0]["decision_id"])
        node = self.canary(victim, "worker")
        worker = {"worker_id": 1, "harvester_id": f"harvester-{victim.vo}", "site_name": QUEUE, "status": "started"}
        victim.pilot.done(victim.pilot.post("/api/v1/pilot/update_worker_status", worker))
        found = acquire(victim.pilot, task_id=victim.task_id, n_jobs=3, node=node)
        running, failed, finished = (int(one["PandaID"]) for one in found)
        victim.jobs = {"running": running, "failed": failed, "finished": finished}
        victim.person.done(victim.person.post("/api/v1/job/set_debug_mode", {"job_id": running, "mode": True}))
        for job_id in (running, failed, finished):
            said = {"node": node, "batch_id": self.canary(victim, "batch job"), "stdout": self.canary(victim, "stdout")}
            said |= {"job_metrics": f"note={self.canary(victim, 'job metrics')}"}
            victim.pilot.done(report(victim.pilot, job_id, "running", **said))
        diag = f"payload failed: {self.canary(victim, 'error')}"
        ended = {"pilot_error_code": 1305, "pilot_error_diag": diag, "meta_data": self.canary(victim, "report")}
        victim.pilot.done(report(victim.pilot, failed, "failed", **ended))
        victim.pilot.done(report(victim.pilot, finished, "finished", **_outputs(found[2])))
        waiting = self.jobs_of(victim.person, victim.task_id, "activated")
        victim.jobs["waiting"] = int(waiting[0]["job_id"])
        spare = self.jobs_of(victim.person, victim.spare_task_id, "activated")
        victim.jobs["spare"] = int(spare[0]["job_id"])
        wait_until(
            lambda: {"failed", "finished"} <= {one["status"] for one in self.jobs_of(victim.person, victim.task_id)},
            f"ends of jobs of {victim.person.label}",
        )


def acquire(pilot: Person, **fields: Any) -> list[dict[str, Any]]:
    """Jobs for a pilot at the queue of the stage."""
    wanted = {"site_name": QUEUE, "memory": 64_000, "disk_space": 500_000, **fields}
    data = pilot.post("/api/v1/pilot/acquire_jobs", wanted).data
    return list((data or {}).get("jobs") or ())


def report(pilot: Person, job_id: int, status: str, **fields: Any) -> Any:
    """One report of a pilot."""
    return pilot.post("/api/v1/pilot/update_job", {"job_id": job_id, "job_status": status, **fields})


def upload(person: Person, name: str, content: bytes) -> Any:
    """One archive of a person."""
    return person.ask("POST", UPLOAD, files={"file": (name, content, "application/gzip")})


def archive(text: str, n_bytes: int = 0) -> bytes:
    """A gzip file with the text in it uncompressed, of at least so many bytes."""
    return gzip.compress(text.encode() + b"\0" * n_bytes, compresslevel=0)


def checksum(content: bytes) -> int:
    """What validate_cache_file asks for: the CRC-32 of the unpacked content."""
    return zlib.crc32(gzip.decompress(content))


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Ask again until it holds. Raises RuntimeError."""
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"the stage: no {what} within {WITHIN_S:.0f} s")
        time.sleep(0.1)


def _scope_of(victim: Victim) -> str:
    return {"atlas": "data23_13p6TeV", "cms": "cms23"}[victim.vo]


def _grid() -> dict[str, Any]:
    files: dict[str, Any] = read_grid_folder(GRID)
    return files


def _outputs(spec: dict[str, Any]) -> dict[str, Any]:
    """A report on every output of a job that its text names, and on its log."""
    written = named_files(spec) | {spec.get("logFile")}
    names = [name for name in str(spec.get("outFiles", "")).split(",") if name in written]
    made = {name: {"fsize": 1000, "adler32": "0a1b2c3d", "guid": "", "nevents": 100} for name in names}
    return {"job_output_report": made, "trans_exit_code": 0}
