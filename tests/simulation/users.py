"""Users of the simulation: they submit tasks and sometimes command them, over HTTP."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from shared.auth import Authority
from tests.simulation.commands import ENDING, any_command, any_plain
from tests.simulation.scenario import GROWING
from tests.simulation.services import Services


def tasks() -> list[dict[str, Any]]:
    """Small versions of the kinds of task; the last follows the third, which is its parent."""
    return [_simulation(), _generation(), _derivation(), _analysis(), _growth(), _child()]


#: places among `tasks`
PARENT, GROWTH, CHILD = 2, 4, 5


class Users:
    """`ended`: tasks that somebody ended early. Every other one has to be done in the end, whatever fails.

    With `give_all` they give every command of the table, not only those that take nothing.
    """

    def __init__(
        self,
        rng: random.Random,
        services: Services,
        authority: Authority,
        note: Callable[[str], None],
        *,
        give_all: bool,
    ) -> None:
        self._rng, self._note, self._give_all = rng, note, give_all
        token = authority.issue("production", ["production", "operator"])
        self._client = services.client("task-definition", token)
        self._task_ids: list[int] = []
        self.ended: set[int] = set()
        self._with_less_input: set[int] = set()

    async def narrow_queues(self) -> None:
        """No more jobs are queued anywhere than one, and two for each that runs."""
        parameter = {"app": "jedi", "component": "jobbroker", "key": "NQUEUELIMITSITE", "value": 0}
        reply = await self._client.post("/api/v1/config/set", parameter)
        assert reply.status == 200 and reply.json()["success"], reply.text

    async def submit_all(self) -> None:
        for place, task in enumerate(tasks()):
            more = {"parent_tid": self._task_ids[PARENT]} if place == CHILD else {}
            reply = await self._client.post("/api/v1/task/submit", {"task_parameters": task, **more})
            assert reply.status == 200 and reply.json()["success"], reply.text
            self._task_ids.append(reply.json()["data"])

    async def command(self) -> None:
        """One command on one task; refused ones are part of life. A paused task is resumed some time."""
        task_id = self._rng.choice(self._task_ids)
        path, given = (any_command if self._give_all else any_plain)(self._rng, task_id)
        known = set(self.ended)
        # also if the reply is lost
        if path in ENDING:
            self._expect_less(task_id)
        elif path == "recover_lost_files" and task_id == self._task_ids[PARENT]:
            self._with_less_input.add(self._task_ids[CHILD])  # what it has not read yet leaves the dataset
            self.ended.add(self._task_ids[CHILD])
        reply = await self._client.post(f"/api/v1/task/{path}", {"task_id": task_id, **given})
        assert reply.status == 200, f"{path} {given}: {reply.status} {reply.text}"
        if not reply.json()["success"]:
            self.ended = known
        self._note(f"{path} {task_id} {given or ''}: {reply.json()['message']}")

    def _expect_less(self, task_id: int) -> None:
        self.ended.add(task_id)
        if task_id == self._task_ids[PARENT]:
            self.ended.add(self._task_ids[CHILD])

    def expect_part(self) -> None:
        """Of the growing input some can never be used: its task does what is left."""
        self._with_less_input.add(self._task_ids[GROWTH])
        self.ended.add(self._task_ids[GROWTH])

    async def resume_all(self) -> None:
        """At the end of the faulty part nobody leaves a task paused."""
        for task_id in self._task_ids:
            reply = await self._client.post("/api/v1/task/resume", {"task_id": task_id})
            assert reply.status == 200, reply.text

    async def retry_all(self) -> None:
        """What was ended early and is over by then is tried again: it has to be done after all.

        Not what ended before its input was read: of that a retry finds nothing.
        """
        for task_id in self._task_ids:
            reply = await self._client.post("/api/v1/task/retry", {"task_id": task_id})
            assert reply.status == 200, reply.text
            message = reply.json()["message"]
            self._note(f"retry {task_id} at last: {message}")
            goes_on = reply.json()["success"] and "nothing left to retry" not in message
            if goes_on and task_id not in self._with_less_input:
                self.ended.discard(task_id)


def _task(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "taskName": f"sim.{name}", "userName": "production", "vo": "atlas", "prodSourceLabel": "managed",
        "taskType": "prod", "processingType": "simul", "workingGroup": "AP_SIM", "taskPriority": 500,
        "architecture": "x86_64-centos7-gcc11-opt", "transUses": "Atlas-23.0.53", "transHome": "Sim-23.0.53",
        "transPath": "Sim_tf.py", "coreCount": 1, "ramCount": 1500, "ramUnit": "MB", "cpuTime": 10,
        "cpuTimeUnit": "HS06sPerEvent", "maxAttempt": 8,
        "log": {"type": "template", "param_type": "log", "value": "log.$JEDITASKID._${SN/P}.tgz",
                "dataset": f"sim.{name}.log", "token": "ATLASDATADISK"},
        **fields,
    }  # fmt: skip


def _input(dataset: str) -> dict[str, Any]:
    return {"type": "template", "param_type": "input", "value": "--input=${IN}", "dataset": f"sim:{dataset}"}


def _output(name: str) -> dict[str, Any]:
    return {"type": "template", "param_type": "output", "value": f"--output={name}.$JEDITASKID._${{SN/P}}.root",
            "dataset": f"sim.{name}.out", "token": "ATLASDATADISK"}  # fmt: skip


def _number(placeholder: str) -> dict[str, Any]:
    return {"type": "template", "param_type": "number", "value": f"--{placeholder.lower()}=${{{placeholder}}}"}


def _simulation() -> dict[str, Any]:
    """Event-level splitting: 3 files of 200 events, 100 events per job."""
    parameters = [_input("simulation.EVNT"), _number("MAXEVENTS"), _number("SKIPEVENTS"), _number("RNDMSEED")]
    return _task("simulation", nEventsPerInputFile=200, nEventsPerJob=100, jobParameters=[*parameters, _output("HITS")])


def _generation() -> dict[str, Any]:
    """No input: 12 jobs, the first ten of them scouts."""
    parameters = [_number("MAXEVENTS"), _number("FIRSTEVENT"), _number("RNDMSEED"), _output("EVNT")]
    return _task("generation", processingType="evgen", noInput=True, nEvents=1200, nEventsPerJob=100,
                 jobParameters=parameters)  # fmt: skip


def _derivation() -> dict[str, Any]:
    """Merged output: 8 files, 2 per job, 2 outputs per merge job."""
    return _task(
        "derivation", processingType="deriv", nFilesPerJob=2, mergeOutput=True, nFilesPerMergeJob=2,
        mergeSpec={"transPath": "Merge_tf.py", "jobParameters": "--in=${TRN_OUTPUT0/L} --out=${OUTPUT0}"},
        log_merge={"type": "template", "param_type": "log", "value": "merge.$JEDITASKID._${SN/P}.tgz",
                   "dataset": "sim.derivation.merge.log", "token": "ATLASDATADISK"},
        jobParameters=[_input("derivation.AOD"), _output("DAOD")],
    )  # fmt: skip


def _analysis() -> dict[str, Any]:
    """A container of three datasets."""
    return _task("analysis", userName="student", prodSourceLabel="user", taskType="anal", processingType="panda-client",
                 taskPriority=1000, nFilesPerJob=1, jobParameters=[_input("analysis/"), _output("hist")],
                 maxFailure=8)  # fmt: skip


def _growth() -> dict[str, Any]:
    """Runs until its input is closed."""
    return _task("growth", nFilesPerJob=1, runUntilClosed=True, skipScout=True,
                 jobParameters=[_input(GROWING), _output("GROWN")])  # fmt: skip


def _child() -> dict[str, Any]:
    """Follows the output of its parent while that grows."""
    return _task("child", nFilesPerJob=1, noWaitParent=True, skipScout=True,
                 jobParameters=[_input("sim.DAOD.out"), _output("CHILD")])  # fmt: skip
