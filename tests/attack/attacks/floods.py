"""One address or one caller takes what all need: connections, sessions, the time of a service."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from shared.web.file_limit import raise_file_limit
from tests.attack.answers import Answer
from tests.attack.attacks import attack
from tests.attack.ground import GotThrough, Ground, require
from tests.attack.stage import QUEUE

N_CONNECTIONS = 600
#: the loopback address that attacks; the others call from the usual one
ATTACKER = "127.0.0.2"
WITHIN_S = 1.0
#: of the answers so many may be late: the machine does other things, too
FORGIVEN = 1
#: who call at the same time: more than there are connections between gateway and services that wait to be used again
OTHERS = 16
#: each reads its body before it looks at its caller; pilots have a room of their own, which one address fills no more
PATHS = (
    "/api/v1/task/submit",
    "/api/v1/pilot/update_job",
    "/api/v1/grid/load",
    "/server/panda/updateJob",
    "/api/v1/share/load",
)


async def _drip(address: str, port: int, begin: bytes, drop: bytes, until: float) -> None:
    """One place that is kept: a few bytes now and then, a new connection where the old one was cut."""
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(address, port, local_addr=(ATTACKER, 0))
            try:
                writer.write(begin)
                while time.monotonic() < until and not reader.at_eof():
                    await asyncio.sleep(0.5)
                    writer.write(drop)
                    await writer.drain()
            finally:
                writer.close()
        await asyncio.sleep(0.5)


def _slow_connections(ground: Ground, begin: Sequence[bytes], drop: bytes, seconds: float) -> Callable[[], None]:
    """Holds the connections in a thread; the returned function waits for their end."""
    raise_file_limit()
    parts = urlsplit(ground.system.address)
    until = time.monotonic() + seconds

    async def all_of_them() -> None:
        host, port = str(parts.hostname), int(parts.port or 80)
        await asyncio.gather(
            *(_drip(host, port, begin[number % len(begin)], drop, until) for number in range(N_CONNECTIONS))
        )

    thread = threading.Thread(target=lambda: asyncio.run(all_of_them()), daemon=True)
    thread.start()
    return thread.join


def _others_are_served(ground: Ground, seconds: float) -> None:
    """Raises GotThrough unless health, pilots and people are answered within a second all the while."""
    pilot, person, nobody = ground.ada.pilot, ground.ada.person, ground.people.nobody
    questions: tuple[tuple[str, Callable[[], Answer]], ...] = (
        ("health", lambda: nobody.get("/livez")),
        ("is_alive", lambda: nobody.get("/api/v1/system/is_alive")),
        ("a pilot's acquire", lambda: pilot.post("/api/v1/pilot/acquire_jobs", {"site_name": QUEUE, "task_id": 1})),
        ("a person's task", lambda: person.get("/api/v1/task/get_status", task_id=ground.ada.task_id)),
    )
    late: list[str] = []
    until = time.monotonic() + seconds

    def asks(number: int) -> None:
        while time.monotonic() < until:
            what, ask = questions[number % len(questions)]
            before = time.monotonic()
            try:
                status = ask().status
            except Exception as error:  # what a caller sees who gets no answer
                raise GotThrough(f"{what}: no answer: {type(error).__name__}: {error}") from None
            took = time.monotonic() - before
            require(status == 200, f"{what}: HTTP {status}")
            if took > WITHIN_S:
                late.append(f"{what} after {took:.1f} s")
            time.sleep(0.5)

    with ThreadPoolExecutor(OTHERS) as pool:
        list(pool.map(asks, range(OTHERS)))
    require(len(late) <= FORGIVEN, f"{len(late)} answers were late: {', '.join(late[:3])}")


def _head(path: str) -> str:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def _slow(ground: Ground, rest: str, drop: bytes) -> None:
    """Holds connections that begin with these headers while the others call."""
    seconds = ground.sized(20, 5)
    end = _slow_connections(ground, [f"{_head(path)}{rest}".encode() for path in PATHS], drop, seconds + 1)
    time.sleep(1.0)
    try:
        _others_are_served(ground, seconds)
    finally:
        end()


@attack(f"{N_CONNECTIONS} connections of one address send their bodies byte by byte")
def slow_bodies(ground: Ground) -> None:
    _slow(ground, "Content-Length: 1000\r\n\r\n", b"1")


@attack(f"{N_CONNECTIONS} connections with a good token send their bodies byte by byte", full=True)
def slow_bodies_with_a_token(ground: Ground) -> None:
    token = ground.people["bob@cms"].token
    _slow(ground, f"Authorization: Bearer {token}\r\nContent-Length: 1000\r\n\r\n", b"1")


@attack(f"{N_CONNECTIONS} connections of one address send their headers letter by letter")
def slow_headers(ground: Ground) -> None:
    _slow(ground, "X-Slow: ", b"a")


@attack("one caller reads as much as it can")
def reads(ground: Ground) -> None:
    seconds = ground.sized(15, 4)
    who, until = ground.people["bob@cms"], time.monotonic() + ground.sized(15, 4) + 0.5
    heavy = (
        "/api/v1/task/list?limit=1000", "/api/v1/grid/queues", "/api/v1/job/list?limit=10000", "/api/v1/grid/sites",
        "/api/v1/share/explain?hours=8000", "/api/v1/config/list",
    )  # fmt: skip

    def reader(number: int) -> None:
        headers = {"Authorization": f"Bearer {who.token}"}
        while time.monotonic() < until:
            with contextlib.suppress(Exception):
                answer = who.http.get(heavy[number % len(heavy)], headers=headers)
                if answer.status_code == 429:
                    time.sleep(0.2)

    with ThreadPoolExecutor(24) as pool:
        for number in range(24):
            pool.submit(reader, number)
        _others_are_served(ground, seconds)


def _exponential(depth: int) -> str:
    """An expression of a few hundred letters that takes 2^depth steps."""
    steps = "".join(f"a{number}=a{number - 1}+a{number - 1};" for number in range(1, depth + 1))
    return f"[a0=1;{steps}].a{depth} > 0"


@attack("an expression about sites holds job brokerage")
def expressions(ground: Ground) -> None:
    operator, pilot = ground.people.operator, ground.ada.pilot
    operator.done(operator.post("/api/v1/site/advertise", {"Site": "CERN-PROD", "MaxJobs": 100_000}))
    named = {"component": "job_dispatch", "key": "ADVERTISERS"}
    operator.done(operator.post("/api/v1/config/set", {**named, "value": {"BNL-ATLAS": ["pilot-atlas"]}}))
    task = ground.stage.task_of(ground.ada, "hostile task", requirements=_exponential(22))
    answer = ground.ada.person.post("/api/v1/task/submit", {"task_parameters": task})
    advert = {"Site": "BNL-ATLAS", "MaxJobs": 10, "Requirements": _exponential(22)}
    advertised = pilot.post("/api/v1/site/advertise", advert)
    for who, one in ((ground.ada.person, answer), (pilot, advertised)):
        if not one.is_success:
            ground.refused(who, one, "states the expression", "equirements")
    accepted = [what for what, one in (("the task", answer), ("the site", advertised)) if one.is_success]
    slowest, until = 0.0, time.monotonic() + ground.sized(10, 4)
    try:
        while accepted and time.monotonic() < until:
            slowest = max(slowest, ground.people.operator.get("/api/v1/grid/status").seconds)
            time.sleep(0.02)
    finally:
        operator.post("/api/v1/config/unset", named)
    require(slowest < WITHIN_S, f"taken of {' and '.join(accepted)}: an answer of job brokerage took {slowest:.1f} s")


@attack("bodies that are too large, too deep or packed bombs")
def bodies(ground: Ground) -> None:
    who = ground.people["bob@cms"]
    bomb = gzip.compress(b'{"a":"' + b"x" * 200_000_000 + b'"}', compresslevel=9)
    packed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    deep = b'{"task_parameters":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}"
    plain = {"Content-Type": "application/json"}
    for path in ("/api/v1/task/submit", "/api/v1/pilot/update_job", "/api/v1/catalogue/import"):
        for content, headers in ((bomb, packed), (deep, plain)):
            answer = who.ask("POST", path, content=content, headers=headers)
            ground.refused(who, answer, f"sends {len(content)} bytes to {path}")
    _others_are_served(ground, 1.0)
