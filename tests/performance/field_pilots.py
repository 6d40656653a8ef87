"""Pilots of the published kind that cost little themselves: `python -m tests.performance.field_pilots`.

Each has a connection of its own and makes the calls of `field_calls` one after the other, one job at a time, without a
pause: what takes a pilot hours is no load for anybody. It asks again at its queue, as published pilots do, and where
there is nothing it is sent to where jobs wait, as factories do. The first line of standard input says where the
services are; it ends when its standard input does, and prints what it did.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import subprocess
import sys
import time
import urllib.request
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import uvloop

from services.cli.simulated_pilots.allocation import Allocation, QueueSite, queue_from_record
from shared.web.file_limit import raise_file_limit
from tests.performance.field_calls import N_KINDS, Job, Kind
from tests.performance.figures import percentile

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
LOOK_EVERY_S, AGAIN_S, STOP_S = 0.25, 1.0, 20.0
#: between them a published pilot waits for half an hour
N_HEARTBEATS = 2
#: of a job with input: getJob, starting, running twice, heartbeats, finished
N_CALLS = 5 + N_HEARTBEATS
#: answers to a report that was taken, to those that accept JSON and to those that do not say
TAKEN = (b'{"StatusCode":0,"command":"NULL"}', b"StatusCode=0&command=NULL")


@contextmanager
def field_pilots(dispatch: list[str], brokerage: str, token: str, count: int) -> Iterator[subprocess.Popen[str]]:
    """Pilots for the length of a block; `ended` tells what they did."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.performance.field_pilots"],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    wanted = {"dispatch": dispatch, "brokerage": brokerage, "token": token, "count": count}
    process.stdin.write(json.dumps(wanted) + "\n")
    process.stdin.flush()
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Let the pilots end; what they did."""
    return dict(json.loads(process.communicate(timeout=2 * STOP_S)[0] or "{}"))


class FieldPilot(asyncio.Protocol):
    """One job after the other; each answer leads to the next call."""

    def __init__(self, fleet: FieldFleet, number: int, port: int, kind: Kind) -> None:
        self._fleet, self._port, self._kind = fleet, port, kind
        self._worker = b"%d" % number
        self._transport: asyncio.Transport | None = None
        self._received, self._unanswered = b"", b""
        self._sent_at = 0.0
        self._calls: list[Callable[[], bytes]] = []  # of this job, the last first
        self.site: QueueSite | None = None
        self.job: Job | None = None

    def ask(self, site: QueueSite) -> None:
        """Ask for a job at a queue."""
        self.site = site
        name, label = site.name.encode(), str(site.offer["prod_source_label"]).encode()
        self._send(self._kind.get_job.filled(name, name, label, self._worker))

    def _send(self, request: bytes) -> None:
        self._unanswered, self._sent_at = request, time.perf_counter()
        if self._transport is None:
            self._fleet.connect(self, self._port)
        else:
            self._transport.write(request)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's is not a subclass
        if self._unanswered:
            transport.write(self._unanswered)  # type: ignore[attr-defined]

    def connection_lost(self, error: Exception | None) -> None:
        self._transport, self._received = None, b""
        if self._unanswered:
            self._fleet.outcomes["connections lost"] += 1
            self._fleet.connect(self, self._port)

    def data_received(self, data: bytes) -> None:
        received = self._received + data if self._received else data
        head, length_at = received.find(b"\r\n\r\n"), received.find(b"content-length:")
        if head < 0 or len(received) < head + 4 + int(received[length_at + 15 : received.find(b"\r\n", length_at)]):
            self._received = received
            return
        self._received = b""
        self._answered(received[9:12], received[head + 4 :])

    def _answered(self, status: bytes, body: bytes) -> None:
        took_s = time.perf_counter() - self._sent_at
        if self.job is None:
            self._asked(status, body, took_s)
        elif body in TAKEN:
            self._fleet.reports_s.append(took_s)
            self._report()
        elif status == b"200":
            is_told_twice = not self._calls and b"alreadydone" in body
            self._end("finished" if is_told_twice else f"told {body[:200].decode()}")
        else:
            self._fleet.outcomes[f"sent again after {status.decode()}"] += 1
            asyncio.get_running_loop().call_later(AGAIN_S, self._send, self._unanswered)
            self._unanswered = b""

    def _asked(self, status: bytes, body: bytes, took_s: float) -> None:
        self._unanswered = b""
        if not body.startswith(b'{"StatusCode":0'):
            self._fleet.without_job(self, body)
            return
        self._fleet.jobs_s.append(took_s)
        job, kind = Job.of(orjson.loads(body)), self._kind
        assert self.site is not None
        self.job, common = job, (job.job_id, self.site.name.encode(), job.attempt)
        reports = [kind.starting, *[kind.running] * (2 if job.has_input else 1), *[kind.heartbeat] * N_HEARTBEATS]
        self._calls = [lambda: kind.final.filled(*common, kind.outputs(job))]
        self._calls += [partial(one.filled, *common) for one in reversed(reports)]
        self._fleet.with_job(self, job)
        self._report()

    def _report(self) -> None:
        if self._calls:
            self._send(self._calls.pop()())
        else:
            self._end("finished")

    def _end(self, outcome: str) -> None:
        self.job, self._unanswered = None, b""
        self._fleet.ended(self, outcome)


class FieldFleet:
    """A number of pilots and the factory that sends them; `run` lives until it is stopped."""

    def __init__(self, dispatch: list[str], brokerage: str, token: str, count: int) -> None:
        ports = [int(url.rpartition(":")[2]) for url in dispatch]
        kinds = [Kind(number, HOST, token) for number in range(min(N_KINDS, count))]
        self._pilots = [FieldPilot(self, n, ports[n % len(ports)], kinds[n % len(kinds)]) for n in range(count)]
        self._idle = deque(self._pilots)
        self._sent: set[FieldPilot] = set()
        self._dispatch, self._brokerage, self._token = dispatch[0], brokerage, token
        self._allocation = Allocation((), random.Random(1))
        self._connecting: set[asyncio.Task[None]] = set()
        self._stopped, self._free = asyncio.Event(), asyncio.Event()  # told to end; nobody has a job
        self._n_busy = 0
        self._seen: list[tuple[int, int, int]] = []  # jobs given so far, pilots with one, jobs that wait for a pilot
        self._given: set[bytes] = set()
        self.jobs_s, self.reports_s = array("d"), array("d")
        self.nothing: Counter[str] = Counter()  # calls without a job, by why
        self.outcomes: Counter[str] = Counter()

    # -- what pilots tell

    def connect(self, pilot: FieldPilot, port: int) -> None:
        """Open the connection of a pilot; what is unanswered is sent then."""

        async def opened() -> None:
            while True:
                try:
                    await asyncio.get_running_loop().create_connection(lambda: pilot, HOST, port)
                    return
                except OSError:
                    await asyncio.sleep(AGAIN_S)

        task = asyncio.ensure_future(opened())
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    def with_job(self, pilot: FieldPilot, job: Job) -> None:
        """A pilot was given a job."""
        self._n_busy += 1
        self._given.add(job.job_id)
        self._arrived(pilot, got_job=True)

    def without_job(self, pilot: FieldPilot, answer: bytes) -> None:
        """A pilot was given none: the factory sends it somewhere else."""
        is_usual = answer.startswith(b'{"StatusCode":20')
        self.nothing[orjson.loads(answer)["why"] if is_usual else answer[:200].decode()] += 1
        self._arrived(pilot, got_job=False)
        self._idle.append(pilot)

    def ended(self, pilot: FieldPilot, outcome: str) -> None:
        """A job ended: its pilot asks again where it is."""
        self._n_busy -= 1
        self.outcomes[outcome] += 1
        if self._stopped.is_set():
            if not self._n_busy:
                self._free.set()
            return
        assert pilot.site is not None
        pilot.ask(pilot.site)

    def _arrived(self, pilot: FieldPilot, *, got_job: bool) -> None:
        """Pilots that ask again where they are were not sent there for what waits."""
        if pilot in self._sent and pilot.site is not None:
            self._sent.discard(pilot)
            self._allocation.asked(pilot.site.name, got_job=got_job)

    # -- the factory

    async def run(self) -> dict[str, Any]:
        """Send pilots until standard input ends; what they did."""
        stop = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
        stop.add_done_callback(lambda _: self._stopped.set())
        records = await asyncio.to_thread(self._get, f"{self._brokerage}/api/v1/grid/queues")
        queues = [one for one in map(queue_from_record, records) if one is not None]
        self._allocation = Allocation(queues, random.Random(1))
        while not self._stopped.is_set():
            self._send_idle()
            await self._look()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_S if self._n_busy else 0):
                await self._free.wait()
        return self._told()

    def _send_idle(self) -> None:
        while self._idle and (site := self._allocation.next_queue(exploring=False)) is not None:
            pilot = self._idle.popleft()
            self._sent.add(pilot)
            pilot.ask(site)

    async def _look(self) -> None:
        """What waits where, a moment later."""
        await asyncio.sleep(LOOK_EVERY_S)
        found = await asyncio.to_thread(self._get, f"{self._dispatch}/api/v1/statistics/active_job_stats_by_site")
        waiting = {queue: sum(one.get("activated", 0) for one in kinds.values()) for queue, kinds in found.items()}
        self._allocation.set_demand(waiting)
        self._seen.append((len(self.jobs_s), self._n_busy, sum(waiting.values())))

    def _get(self, url: str) -> Any:
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self._token}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return orjson.loads(answer.read())["data"]

    def _told(self) -> dict[str, Any]:
        n_jobs = len(self.jobs_s)
        middle = [one for given, *one in self._seen if 0.15 * n_jobs <= given <= 0.85 * n_jobs] or [[0, 0]]
        busy, waiting = (sum(one) / len(middle) for one in zip(*middle, strict=True))
        return {
            "jobs": n_jobs, "outcomes": dict(self.outcomes), "nothing": dict(self.nothing),
            "busy": busy / len(self._pilots), "waiting": waiting, "left": self._n_busy,
            "given_twice": n_jobs - len(self._given),
            "get_job_s": _shares(self.jobs_s), "report_s": _shares(self.reports_s), "cpu_s": time.process_time(),
        }  # fmt: skip


def _shares(seconds: array[float]) -> list[float]:
    """Median and 99th percentile."""
    return [percentile(seconds, one) for one in (0.5, 0.99)] if seconds else []


async def main() -> None:
    """Run what standard input asks for."""
    raise_file_limit()
    wanted = json.loads(sys.stdin.readline())
    print(json.dumps(await FieldFleet(**wanted).run()))


if __name__ == "__main__":
    uvloop.run(main())
