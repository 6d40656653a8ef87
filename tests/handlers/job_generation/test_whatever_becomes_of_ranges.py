"""Random tasks of the event service, what their pilots report, and how their jobs end: each event is processed once."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from services.job_dispatch.lifecycle.event_ranges import EventRanges, RangeReport
from services.job_dispatch.policy.event_ranges import RangeId
from shared.auth import Caller
from shared.config.parameters import Parameters
from shared.runtime.service import Context
from tests.databases import Databases
from tests.handlers.job_generation.jumbo import begin, hourly, is_prepared
from tests.handlers.job_generation.ranges import LINE
from tests.handlers.job_generation.story import Story

#: pilots and jobs misbehave for so many steps; then all that is left is processed and succeeds
BAD_STEPS, MOST_STEPS = 25, 120
PILOTS = Caller("pilots", frozenset({"operator"}), frozenset())
SAID = ["finished"] * 6 + ["running", "failed", "failed", "fatal"]
TASKS = st.fixed_dictionaries(
    {
        "n_files": st.integers(1, 3),
        "n_events": st.sampled_from([1, 30, 45]),
        "has_jumbo": st.booleans(),
        "rule": st.fixed_dictionaries(
            {"nEventsPerWorker": st.sampled_from([10, 15, 100]), "nEsConsumers": st.integers(1, 3),
             "maxAttemptES": st.integers(1, 3), "maxAttemptEsJob": st.integers(1, 3)},
            optional={name: st.just(value=True) for name in ("decAttOnFailedES", "notDiscardEvents",
                                                             "resurrectConsumers")},
        ),
    }
)  # fmt: skip
#: its one file fails for good, and one of its ranges is kept as processed for the next retry of the task
KEPT = {
    "n_files": 1, "n_events": 30, "has_jumbo": False,
    "rule": {"nEventsPerWorker": 10, "nEsConsumers": 1, "maxAttemptES": 1, "maxAttemptEsJob": 1,
             "notDiscardEvents": True},
}  # fmt: skip


class Pilots:
    """All pilots of one task; what was said once is said again at any time."""

    def __init__(self, story: Story, task_id: int, rng: random.Random) -> None:
        self.story, self.task_id, self.rng = story, task_id, rng
        self.ranges = EventRanges(story.database, Parameters())
        self.given: list[RangeId] = []

    async def step(self, *, bad: bool) -> None:
        """A chunk is brokered, or a live job begins, takes ranges, reports some, or ends."""
        chunks = await self.story.fetch(
            "SELECT chunk_id FROM chunks WHERE task_id = $1 AND status = 'offered'", self.task_id
        )
        if chunks:
            queues = ("Q_ALPHA", "Q_BETA", "J_BETA", "J_GAMMA")
            await self.story.broker(self.task_id, chunks[0]["chunk_id"], *queues)
            return
        if bad and self.rng.random() < 0.1:
            await hourly(self.story)
        jobs = await self.story.fetch(
            "SELECT job_id, job_type, status FROM jobs WHERE task_id = $1 AND status IN ('defined', 'running')"
            " ORDER BY job_id",
            self.task_id,
        )
        if bad:
            await self._say_again()
        if jobs:
            await self._work(self.rng.choice(jobs), bad=bad)

    async def _work(self, job: dict[str, Any], *, bad: bool) -> None:
        job_id, fails = job["job_id"], bad and self.rng.random() < 0.3
        if fails and job["status"] == "defined":
            await self.story.end([job_id], self.rng.choice(["closed", "cancelled"]), source="watchdog")
            return
        if job["job_type"] == "merge":
            await self.story.end([job_id], "failed" if fails else "finished", source="pilot" if fails else None)
            return
        if job["status"] == "defined":
            await self.story.move([job_id], "running")
        taken = await self.ranges.acquire(PILOTS, job_id, self.task_id, self.rng.randint(0, 4) if bad else 100)
        ids = [one.range_id for one in taken]
        self.given += ids
        for one in ids:
            await self._say(one, self.rng.choice(SAID) if bad else "finished")
        if bad and self.rng.random() < 0.4:
            return  # it goes on, and has those of which it said nothing final
        good = "finished" if job["job_type"] == "jumbo" else "merging"
        await self.story.end([job_id], "failed" if fails else good, source="pilot" if fails else None)

    async def _say(self, one: RangeId, state: Any) -> None:
        await self.ranges.report(PILOTS, [RangeReport("said", one, state)], 1)

    async def _say_again(self) -> None:
        """Late, twice, of another job, or of a range that there is not: nothing is counted twice for it."""
        if not self.given:
            return
        one = self.rng.choice(self.given)
        other = self.rng.choice(self.given)._replace(job_id=one.job_id)
        for range_id in (one, other, one._replace(process_id=99)):
            await self._say(range_id, self.rng.choice(SAID))


@settings(max_examples=5, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(values=KEPT, seed=0)
@given(values=TASKS, seed=st.integers(0, 2**16))
async def test_each_event_is_merged_once_or_its_file_failed_with_its_attempts_used_whatever_is_reported(
    context: Context, databases: Databases, values: dict[str, Any], seed: int
) -> None:
    story, rng = await begin(context, databases), random.Random(seed)
    rule = {**values["rule"], **({"nJumboJobs": 2} if values["has_jumbo"] else {})}
    task_id = await story.task(
        n_files=values["n_files"], n_events=values["n_events"], command_line=LINE, rule=rule, event_service=1,
        use_jumbo="W" if values["has_jumbo"] else None,
    )  # fmt: skip
    await story.ready(task_id)
    pilots = Pilots(story, task_id, rng)
    for number in range(MOST_STEPS):
        if await is_prepared(story, task_id):
            break
        await pilots.step(bad=number < BAD_STEPS)
    assert await is_prepared(story, task_id)
    await each_event_was_processed_once(
        story, task_id, values["n_events"], keeps_processed="notDiscardEvents" in values["rule"]
    )


async def each_event_was_processed_once(story: Story, task_id: int, n_events: int, *, keeps_processed: bool) -> None:
    """The merged ranges of a finished file are all of its events, once; a failed one has none and no attempt left.

    No range is open. With notDiscardEvents those of a failed file that were processed stay so: a retry merges them.
    """
    files = await story.fetch(
        "SELECT file_id, status, attempt_nr, max_attempt FROM task_files WHERE task_id = $1 AND type = 'input'", task_id
    )
    merged = await story.fetch(
        "SELECT file_id, def_min_event_id AS first, def_max_event_id AS last FROM event_ranges"
        " WHERE task_id = $1 AND status = 9",
        task_id,
    )
    processed = Counter((one["file_id"], event) for one in merged for event in range(one["first"], one["last"] + 1))
    finished = [file["file_id"] for file in files if file["status"] == "finished"]
    assert processed == {(file_id, event): 1 for file_id in finished for event in range(1, n_events + 1)}
    for file in files:
        assert file["status"] in ("finished", "failed")
        assert file["status"] == "finished" or file["attempt_nr"] == file["max_attempt"]
    left = (
        "SELECT count(*) FROM event_ranges r JOIN task_files f USING (file_id) WHERE r.task_id = $1"
        " AND (r.status IN (0, 1, 2, 3) OR r.status = 6 AND NOT (f.status = 'failed' AND $2))"
    )
    assert await story.value(left, task_id, keeps_processed) == 0
