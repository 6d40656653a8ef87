"""A process that is stopped (SIGSTOP), not killed: it keeps its connections, row locks, messages and leases. One of two
replicas of each service in turn: work goes on, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import pytest

from deploy.local.processes import ProcessIdentity, is_alive
from deploy.local.services import SERVICES
from deploy.local.system import LocalSystem
from services.cli.addresses import RUN_FILE_VARIABLE
from tests.chaos.conftest import ROOT
from tests.chaos.load import POLL_S, Load, load_on, pilots

pytestmark = pytest.mark.chaos

BACK_WITHIN_S = 15.0
WINDOW_S = 3.0
#: before that the messages that the stopped process holds are not missed yet
MISSED_AFTER_S = 4.0
N_AHEAD, N_PILOTS, PAYLOAD_S = 180, 12, 0.5


async def test_one_frozen_replica_of_each_service_delays_only_its_own_work(two_of_each: LocalSystem) -> None:
    for name in ("jobbroker.RETRY_ANALYSIS_S", "jobgen.THROTTLED_RETRY_S"):
        _orrery(two_of_each, "config", "set", name, "2")
    async with load_on(two_of_each, copy=1) as load:
        await load.keep(N_AHEAD)
        with pilots(two_of_each, count=N_PILOTS, payload_s=PAYLOAD_S):
            recovered = {service: await _freeze(two_of_each, load, service) for service in SERVICES}
            too_late = {service: after_s for service, after_s in recovered.items() if after_s > BACK_WITHIN_S}
            assert not too_late, f"seconds until the rate was back: {recovered}"
            await _until(lambda: _all_done(load), 90.0, "all tasks are done")
        assert await load.look() == load.n_jobs, "each job finished once, none more"
    _orrery(two_of_each, "check")


async def _freeze(system: LocalSystem, load: Load, service: str) -> float:
    """Stop one replica in the middle of its work; seconds until the rate was back. Returns when it was replaced."""
    await _until(lambda: _has_rate(load), 60.0, f"work moves before {service} is stopped")
    before = load.rate(WINDOW_S)
    stopped = system.process(service)
    assert stopped is not None
    os.kill(stopped.pid, signal.SIGSTOP)
    at = time.monotonic()

    async def is_back() -> bool:
        await load.keep(N_AHEAD)
        return time.monotonic() - at > MISSED_AFTER_S and load.rate(WINDOW_S) >= 0.5 * before

    await _until(is_back, 60.0, f"the rate is back after {service} was stopped")
    after_s = time.monotonic() - at
    await _until(lambda: _is_replaced(system, service, stopped, load), 60.0, f"{service} is replaced")
    return after_s


async def _has_rate(load: Load) -> bool:
    await load.keep(N_AHEAD)
    return load.rate(WINDOW_S) > 1.0


async def _is_replaced(system: LocalSystem, service: str, stopped: ProcessIdentity, load: Load) -> bool:
    await load.keep(N_AHEAD)
    entries = [one for one in system.record["processes"] if (one["service"], one["replica"]) == (service, 0)]
    return not is_alive(stopped) and entries[0]["ready"]


async def _all_done(load: Load) -> bool:
    return set(await load.standing()) == {"done"}


async def _until(condition: Callable[[], Awaitable[bool]], patience_s: float, what: str) -> None:
    deadline = time.monotonic() + patience_s
    while not await condition():
        assert time.monotonic() < deadline, f"not so after {patience_s:.0f} s: {what}"
        await asyncio.sleep(POLL_S)


def _orrery(system: LocalSystem, *arguments: str) -> None:
    """The command line, which must end well; `check` says whether the invariants hold."""
    variables = system.environment | {RUN_FILE_VARIABLE: str(system.directory / "run.json")}
    command = [sys.executable, "-m", "services.cli", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
