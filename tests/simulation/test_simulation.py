"""The simulation itself: a seed replays exactly, and a bug that somebody plants is found."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from services.job_brokerage.auditing import Auditing
from services.job_brokerage.waking import QueueWaking
from services.job_dispatch.lifecycle import event_ranges
from services.job_dispatch.lifecycle import reports as reporting
from services.job_generation.store import counters as store_counters
from services.watchdog import sweeping as sweeps
from shared.db import unit_of_work
from tests.simulation import simulation
from tests.simulation.faults import Faults
from tests.simulation.running import run
from tests.simulation.simulation import InvariantBroken, NeverEnded
from tests.simulation.workload import KIND_SEEDS, of_seed

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.simulation, pytest.mark.timeout(600)]


#: queues are narrow in all of them; whether tasks then wait depends on what else happens, so that one has to be enough
SEEDS_WITH_FULL_QUEUES = (147, 42, 135, 108, 45, 138)
ONE_RUN = """
import sys
from tests.simulation.running import leave, run
print(run(int(sys.argv[1])).fingerprint)
leave()
"""


@cache
def fingerprint(seed: int) -> str:
    """What this process makes of a seed."""
    return run(seed).fingerprint


def fingerprint_elsewhere(seed: int) -> str:
    """What a fresh process makes of a seed, whose sets and dictionaries are ordered otherwise than ours."""
    hash_seed = next(number for number in (1, 2) if str(number) != os.environ.get("PYTHONHASHSEED"))
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    command = [sys.executable, "-c", ONE_RUN, str(seed)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_a_seed_replays_exactly_in_another_process_with_other_hashes() -> None:
    assert fingerprint(8), "the next seed finds the database and the sessions of this one"
    assert fingerprint_elsewhere(7) == fingerprint(7)


def test_two_seeds_are_two_runs() -> None:
    assert fingerprint(7) != fingerprint(8)


def test_without_faults_every_task_is_done() -> None:
    assert set(run(1, Faults()).statuses.values()) == {"done"}


def test_results_that_are_counted_twice_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    once = store_counters.apply

    async def twice(work: Any, changes: Any) -> None:
        kept = dict(changes.by_dataset)
        await once(work, changes)
        changes.by_dataset.update(kept)
        await once(work, changes)

    monkeypatch.setattr(store_counters, "apply", twice)
    with pytest.raises(InvariantBroken, match=r"seed 3, step \d+ \(replay: python -m tests.simulation 3\)\s+I3 "):
        run(3, Faults())


def test_a_report_of_another_attempt_that_is_believed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    fenced = reporting.judge

    def unfenced(report: Any, *facts: Any, **others: Any) -> Any:
        return fenced(replace(report, attempt_number=None), *facts, **others)

    monkeypatch.setattr(reporting, "judge", unfenced)
    with pytest.raises(AssertionError, match=r"I6|was answered"):
        run(3, Faults(stale_report=0.5))


def test_a_failed_range_of_events_that_nobody_copies_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_copy(connection: Any, task_id: int, event_range_ids: Sequence[int]) -> list[int]:
        return []

    monkeypatch.setattr(event_ranges, "copy_failed", no_copy)
    with pytest.raises(InvariantBroken, match=r"I1 i1_range_of_no_live_row"):
        run(KIND_SEEDS + 1, Faults(range_fails=0.3))


def test_the_seeds_of_other_kinds_have_copies_fine_grained_processing_and_merges_at_object_stores() -> None:
    tasks = [task for seed in range(KIND_SEEDS + 1, KIND_SEEDS + 11) for task in of_seed(seed).tasks]
    assert {task.get("useJobCloning") for task in tasks} == {None, "runonce", "storeonce"}
    for name in ("fineGrainedProc", "mergeEsOnOS", "nJumboJobs", "buildSpec", "preproSpec"):
        assert any(name in task for task in tasks), name


def test_an_inbox_that_lets_duplicates_through_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The statistics of the queues are a plain sum: only the inbox keeps an event from being added twice."""
    opened = unit_of_work.UnitOfWork.open

    async def always_new(self: Any, **given: Any) -> None:
        await opened(self, **given)
        self.new_events = frozenset(key.event_id for key in given["inbox"])

    async def nobody_audits(self: Auditing, work: Any) -> None:
        """Audits correct what differs twice: the bug would be mended before anybody looks."""

    monkeypatch.setattr(unit_of_work.UnitOfWork, "open", always_new)
    monkeypatch.setattr(Auditing, "audit", nobody_audits)
    with pytest.raises(InvariantBroken, match="I13 i13_statistics_differ_at_rest"):
        for seed in range(1, 6):
            with suppress(NeverEnded):  # a queue that seems full for ever is another sign of it
                run(seed, Faults(duplicate=0.3))


def test_a_lost_message_that_nobody_says_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: Sequence[sweeps.Sweep] = ()
    monkeypatch.setattr(sweeps, "SWEEPS", nothing)
    monkeypatch.setattr(simulation, "LAST_STEP", 900)
    with pytest.raises((NeverEnded, InvariantBroken), match=r"replay: python -m tests.simulation 3"):
        run(3, Faults(drop=0.3))


def test_a_waiting_task_that_nobody_wakes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep_on(self: QueueWaking, work: Any) -> None:
        """The queue drains and nobody looks."""

    monkeypatch.setattr(QueueWaking, "look", sleep_on)
    with pytest.raises(InvariantBroken, match=r"I17: task \d+ waits with .+ although \S+ has had room since"):
        for seed in SEEDS_WITH_FULL_QUEUES:
            run(seed, Faults())


def test_tasks_wait_in_seeds_whose_queues_are_full() -> None:
    assert all(seed % simulation.FULL_SEEDS == 0 for seed in SEEDS_WITH_FULL_QUEUES)
    assert any(run(seed).waited > 0 for seed in SEEDS_WITH_FULL_QUEUES)
