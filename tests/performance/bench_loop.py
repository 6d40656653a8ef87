"""What holds the event loop: large bodies from first byte to report, and large documents until they are freed.

The figure is the processor time of the loop's own thread in its longest callback: other processes and threads are no
part of it. A machine that is shared still adds to it (caches of others, memory that the system hands out), so every
body is read three times and the best counts: what the code itself does is done each time. Bodies are the largest that
a service takes. What is written to the database is not measured here.
`python -m tests.performance.bench_loop`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from services.job_brokerage.app import BODY_LIMITS as GRID_LIMITS
from services.job_dispatch.api.body import IDS, OF_ONE, REPORT, BadBody, fields_of, report_fields_of
from services.job_dispatch.api.report_fields import read_report
from services.task_definition.app import BODY_LIMITS as TASK_LIMITS
from services.task_definition.data.importing.files import forget_catalogue
from services.task_definition.data.importing.import_file import FORMAT, catalogue_in_steps
from services.task_definition.tasks.policy.task_spec import task_in_steps
from shared.auth import Authority
from shared.model.grid import forget_grid, grid_in_steps
from shared.web.intake import PARSED, Intake, Room
from shared.web.json_text import BodyLimits
from shared.web.service import install
from shared.web.slices import in_slices
from tests.handlers.grids import small_grid
from tests.handlers.task_definition.world import production
from tests.performance.sizes import exit_code, sized

Reading = Callable[[bytes], Awaitable[None]]
AUTHORITY = Authority.generate()
APPLICATION = Starlette()
install(APPLICATION, AUTHORITY)
TOKEN = (b"authorization", b"Bearer " + AUTHORITY.issue("b", ["operator"]).encode())
TASK, GRID, CATALOGUE = "/api/v1/task/submit", "/api/v1/grid/load", "/api/v1/catalogue/import"
TARGET_S = 0.005
N_RUNS = sized(3, 1)
CHUNK_BYTES = 64 * 1024
N_IDS = sized(2_000_000, 50_000)
N_OUTPUTS = sized(300_000, 10_000)
N_CHARACTERS = sized(5_000_000, 500_000)
DEPTH = sized(2_000_000, 20_000)
N_FILES = sized(2_000, 100)
N_ITEMS = sized(990, 10)
N_NAMES = sized(120_000, 100)
N_QUEUES = sized(2_000, 20)
N_LINKS = sized(70_000, 200)
N_CATALOGUE = sized(150_000, 500)


class Longest:
    """The longest callback so far, in seconds of the thread's processor time."""

    def __init__(self) -> None:
        self.held_s = 0.0


@contextmanager
def watched() -> Iterator[Longest]:
    """Measures every callback of the loop within the block."""
    found, run = Longest(), asyncio.events.Handle._run

    def measured(handle: Any) -> None:
        started = time.thread_time()
        run(handle)
        found.held_s = max(found.held_s, time.thread_time() - started)

    asyncio.events.Handle._run = measured  # type: ignore[method-assign]
    try:
        yield found
    finally:
        asyncio.events.Handle._run = run  # type: ignore[method-assign]


def request_with(body: bytes) -> Request:
    """A request that arrives in pieces, as a server hands them on."""
    headers = [(b"content-type", b"application/json")]
    return Request({"type": "http", "headers": headers}, pieces_of(body))


def pieces_of(body: bytes) -> Receive:
    """The body as a server hands it on."""
    starts = iter(range(0, len(body), CHUNK_BYTES))

    async def receive() -> dict[str, Any]:
        at = next(starts)
        more = at + CHUNK_BYTES < len(body)
        return {"type": "http.request", "body": body[at : at + CHUNK_BYTES], "more_body": more}

    return receive


async def report(body: bytes) -> None:
    fields, is_small = await report_fields_of(request_with(body), REPORT, OF_ONE)
    read = read_report(fields) if is_small else await asyncio.to_thread(read_report, fields)
    assert read.job_id == 1


async def ids(body: bytes) -> None:
    try:
        await fields_of(request_with(body), IDS)
    except BadBody:
        return


def document(path: str, limits: BodyLimits, check: Callable[[Any], Awaitable[object]]) -> Reading:
    """How a service reads a document that is sent to this path, and what it checks in it."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await check(scope[PARSED])
        await Response(b"")(scope, receive, send)

    async def read(body: bytes) -> None:
        sent = []

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), TOKEN]
        scope = {"type": "http", "path": path, "headers": headers, "app": APPLICATION, "state": {}}
        room = Intake(application, larger={path: limits}, room=Room())
        await room(scope, pieces_of(body), send)
        assert sent[0]["status"] == 200, sent

    return read


async def checked_task(content: Any) -> None:
    await in_slices(task_in_steps(content["task_parameters"]))


async def checked_grid(content: Any) -> None:
    grid = await in_slices(grid_in_steps(content["files"], now=datetime.now(UTC)))
    assert len(grid.links) >= N_LINKS
    await in_slices(forget_grid(grid))


async def checked_catalogue(content: Any) -> None:
    parsed = await in_slices(catalogue_in_steps(content, storages=None, known_datasets=()))
    assert len(parsed.datasets[0].files) == N_CATALOGUE
    await forget_catalogue(parsed)


def final(**fields: Any) -> bytes:
    return orjson.dumps({"job_id": 1, "job_status": "finished", "attempt_nr": 1, **fields})


def bodies() -> Iterator[tuple[str, Reading, bytes]]:
    """(what, how it is read, the body)."""
    yield "ids beyond the limit", ids, orjson.dumps({"job_ids": list(range(N_IDS))})
    yield "outputs of a report beyond the limit", report, final(xml={f"file{n}": {} for n in range(N_OUTPUTS)})
    yield "a text of a report beyond the limit", report, final(metaData="x" * N_CHARACTERS)
    deep = b"[" * DEPTH + b"]" * DEPTH
    yield "a deep field of a report", report, final()[:-1] + b',"metaData":' + deep + b"}"
    files = {
        f"file{n}": {"guid": "g" * 36, "fsize": n, "adler32": "0123abcd", "surl": "s" * 80} for n in range(N_FILES)
    }
    yield "the files of a report", report, final(xml=orjson.dumps(files).decode())
    yield "a task", document(TASK, TASK_LIMITS[TASK], checked_task), orjson.dumps({"task_parameters": task()})
    yield "a grid", document(GRID, GRID_LIMITS[GRID], checked_grid), orjson.dumps({"files": grid()})
    yield "a catalogue", document(CATALOGUE, TASK_LIMITS[CATALOGUE], checked_catalogue), orjson.dumps(catalogue())


def task() -> dict[str, Any]:
    """As many items as are allowed, with long texts; one of them lists files."""
    constant = {"type": "constant", "value": "x" * 2_000}
    items = [*production()["jobParameters"], *[constant] * N_ITEMS]
    place = next(place for place, item in enumerate(items) if item.get("param_type") == "input")
    items[place] = {**items[place], "files": [f"file{n}" for n in range(N_NAMES)]}
    return production(jobParameters=items)


def grid() -> dict[str, Any]:
    """2 000 queues and as many links as the limit allows."""
    files = small_grid()
    [queue] = list(files["queues"].values())[:1]
    files["queues"] |= {f"QUEUE_{n}": {**queue, "siteid": f"QUEUE_{n}"} for n in range(N_QUEUES)}
    link = {"closeness": {"latest": 4, "timestamp": "2026-01-01T00:00:00"}, "mbps": {"dashb": {"1h": 5.0, "1d": 6.0}}}
    files["network_metrics"] = {f"A{n}:B{n}": link for n in range(N_LINKS)}
    return files


def catalogue() -> dict[str, Any]:
    """One dataset with so many files, each named."""
    files = [{"lfn": f"file{n}", "size_bytes": n, "n_events": 9, "guid": "g" * 36} for n in range(N_CATALOGUE)]
    return {"format": FORMAT, "datasets": [{"scope": "mc", "name": "d", "files": files}]}


async def longest_of(read: Reading, body: bytes) -> float:
    """Seconds of the longest callback while a body is read."""
    with watched() as found:
        await asyncio.create_task(read(body))
    return found.held_s


async def main() -> int:
    """0 if no body held the loop for longer than the target."""
    kept = True
    for what, read, body in bodies():
        await read(body)  # what is loaded at the first use is no part of the figure
        held_s = min([await longest_of(read, body) for _ in range(N_RUNS)])
        kept = kept and held_s <= TARGET_S
        print(f"{what}: {len(body) / 1e6:.1f} MB, the loop is held for {held_s * 1000:.1f} ms at most")
    print(f"target: {TARGET_S * 1000:.0f} ms in the best of {N_RUNS} runs")
    return exit_code(kept)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
