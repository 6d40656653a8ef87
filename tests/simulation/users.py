"""Users of the simulation: they submit tasks and sometimes command them, over HTTP."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from shared.auth import Authority
from tests.simulation import scenario
from tests.simulation.commands import ENDING, any_command, any_plain
from tests.simulation.services import Services
from tests.simulation.workload import Workload


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
        workload: Workload,
        *,
        give_all: bool,
    ) -> None:
        self._rng, self._note, self._workload, self._give_all = rng, note, workload, give_all
        token = authority.issue("production", ["production", "operator"])
        self._client = services.client("task-definition", token)
        self._grid = services.client("job-brokerage", token)
        self._task_ids: list[int] = []
        self.ended: set[int] = set()
        self._with_less_input: set[int] = set()

    async def narrow_queues(self) -> None:
        """No more jobs are queued anywhere than one, and two for each that runs."""
        await self.set({"app": "jedi", "component": "jobbroker", "key": "NQUEUELIMITSITE", "value": 0})

    async def open_for_other_kinds(self) -> None:
        """Queues take event service, two of them jumbo jobs, which small tasks have too."""
        for parameter in scenario.PARAMETERS_OF_OTHER_KINDS:
            await self.set(parameter)
        reply = await self._grid.post("/api/v1/grid/load", {"files": scenario.grid_for_other_kinds()})
        assert reply.status == 200 and reply.json()["success"], reply.text

    async def set(self, parameter: Mapping[str, Any]) -> None:
        """Set a runtime parameter."""
        reply = await self._client.post("/api/v1/config/set", parameter)
        assert reply.status == 200 and reply.json()["success"], reply.text

    @property
    def _parent(self) -> int:
        return self._task_ids[self._workload.parent]

    @property
    def _growth(self) -> int:
        return self._task_ids[self._workload.growth]

    @property
    def _child(self) -> int:
        return self._task_ids[self._workload.child]

    async def submit_all(self) -> None:
        for place, task in enumerate(self._workload.tasks):
            more = {"parent_tid": self._parent} if place == self._workload.child else {}
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
        elif path == "recover_lost_files" and task_id == self._parent:
            self._with_less_input.add(self._child)  # what it has not read yet leaves the dataset
            self.ended.add(self._child)
        reply = await self._client.post(f"/api/v1/task/{path}", {"task_id": task_id, **given})
        assert reply.status == 200, f"{path} {given}: {reply.status} {reply.text}"
        if not reply.json()["success"]:
            self.ended = known
        self._note(f"{path} {task_id} {given or ''}: {reply.json()['message']}")

    def _expect_less(self, task_id: int) -> None:
        self.ended.add(task_id)
        if task_id == self._parent:
            self.ended.add(self._child)

    def expect_part(self) -> None:
        """Of the growing input some can never be used: its task does what is left."""
        self._with_less_input.add(self._growth)
        self.ended.add(self._growth)

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
