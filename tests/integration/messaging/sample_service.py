"""A service as a process: `python -m tests.integration.messaging.sample_service`. One row in `effects` per event, after
SAMPLE_WORK_S seconds of work; a file SAMPLE_BEGUN appears when the first handler runs, and SAMPLE_TOGETHER when one
does for several events in one transaction. It kills itself at the point that SAMPLE_KILLED_AT names."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from aio_pika import IncomingMessage

from shared.db import UnitOfWork
from shared.events import TaskDefined, TaskProgressed, TaskReady
from shared.messaging.relay import Relay
from shared.runtime.serve import main
from shared.runtime.service import Context, Periodic, Service


def die() -> None:
    """End at once, as by `kill -9`."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_around(owner: type, name: str, when: str) -> None:
    """Have a method of a class kill the process before or after it does its work."""
    original = getattr(owner, name)

    async def dying(*arguments: Any, **options: Any) -> Any:
        if when == "before":
            die()
        await original(*arguments, **options)
        die()

    setattr(owner, name, dying)


#: the class and the method around which the process is killed, by the point's name
POINTS = {
    "before an event is published": (Relay, "_publish_row", "before"),
    "after an event was confirmed": (Relay, "_publish", "after"),
    "before a message is acknowledged": (IncomingMessage, "ack", "before"),
    "after a message was acknowledged": (IncomingMessage, "ack", "after"),
}


class Handlers:
    async def on_task_defined(self, event: TaskDefined, work: UnitOfWork) -> None:
        if os.environ.get("SAMPLE_BEGUN"):
            await asyncio.to_thread(Path(os.environ["SAMPLE_BEGUN"]).touch)
        await asyncio.sleep(float(os.environ.get("SAMPLE_WORK_S", "0")))
        await work.connection.execute("INSERT INTO effects VALUES ($1, $2)", event.event_id, event.task_id)
        work.emit(TaskReady(task_id=event.task_id))

    async def on_task_progressed(self, event: TaskProgressed, work: UnitOfWork) -> None:
        await asyncio.sleep(float(os.environ.get("SAMPLE_WORK_S", "0")))
        await work.connection.execute("INSERT INTO effects VALUES ($1, $2)", event.event_id, event.task_id)
        if os.environ.get("SAMPLE_TOGETHER") and len(work.new_events) > 1:
            await asyncio.to_thread(Path(os.environ["SAMPLE_TOGETHER"]).touch)

    async def tick(self, work: UnitOfWork) -> None:
        await work.connection.execute("INSERT INTO effects VALUES (0, -1)")


def build(context: Context) -> Service:
    handlers = Handlers()
    return Service(
        "task-brokerage",
        work=[(TaskDefined, handlers.on_task_defined), (TaskProgressed, handlers.on_task_progressed)],
        periodic=[Periodic("tick", 3600.0, handlers.tick)],
    )


if __name__ == "__main__":
    if point := os.environ.get("SAMPLE_KILLED_AT"):
        die_around(*POINTS[point])
    main("task_brokerage", build)
