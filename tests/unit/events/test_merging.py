"""What several events become that are handled together: what each of them says alone, summed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_brokerage.policy.folding import changes_of, changes_of_shares, outcomes_of, signs_of_life
from services.share_correction.policy.buckets import bucket_changes
from shared import events
from shared.events import ENTRIES, Event, JobMove, JobsEvent, JobsReordered, ShareMove, TaskProgressed, merged
from shared.states.job import JobStatus

NOW = datetime(2026, 3, 1, 12, 59, 50, tzinfo=UTC)
VOS = {1: "atlas", 2: "cms"}
STATUSES = st.sampled_from(get_args(JobStatus))
IDS = st.lists(st.integers(1, 8), max_size=4, unique=True).map(tuple)
NUMBERS = {"n_jobs": st.integers(1, 9), "n_cores": st.integers(1, 64)}
PLACE = {"queue": st.sampled_from("AB"), "resource_type": st.just("SCORE"), "user_name": st.just("alice")}
MOVE = st.builds(
    JobMove, task_id=st.integers(1, 2), gshare=st.just("MC"), from_status=st.none() | STATUSES, to_status=STATUSES,
    **PLACE, **NUMBERS,
)  # fmt: skip
SHARE_MOVE = st.builds(
    ShareMove,
    task_id=st.integers(1, 2),
    status=STATUSES,
    from_gshare=st.sampled_from("XY"),
    to_gshare=st.sampled_from("XY"),
    **PLACE,
    **NUMBERS,
)
STAMP = {
    "event_id": st.integers(1, 30),
    "occurred_at": st.integers(0, 3).map(lambda number: NOW + timedelta(seconds=120 * number)),
}
OF_JOBS: dict[str, st.SearchStrategy[Any]] = {"job_ids": IDS, "moves": st.lists(MOVE, max_size=3).map(tuple)}
#: fields of every class of event that shares a transaction; what stands in one event only stands in none of these
FIELDS: dict[type[Event], dict[str, st.SearchStrategy[Any]]] = {
    events.JobsGenerated: OF_JOBS | {"task_id": st.integers(1, 2), "chunk_id": st.integers(1, 3)},
    events.JobsReordered: OF_JOBS | {"share_moves": st.lists(SHARE_MOVE, max_size=3).map(tuple)},
    events.JobsExpired: OF_JOBS | {"reason": st.sampled_from(("late", "lost"))},
    events.OutputsRegistered: {
        "job_ids": IDS, "without_storage_job_ids": IDS, "names_taken_job_ids": IDS, "refused_job_ids": IDS,
    },
    events.TransfersRequested: {"transfer_ids": IDS},
    events.TransfersCompleted: {"transfer_ids": IDS, "job_ids": IDS, "failed_job_ids": IDS},
    events.TasksCounted: {"task_ids": IDS},
    events.TasksWoken: {"task_ids": IDS, "cause": st.sampled_from(("room", "data"))},
    events.TaskProgressed: {
        "task_id": st.integers(1, 3), "status": st.sampled_from(("running", "defined", "scouting")),
        "files_finished": st.integers(0, 9), "files_failed": st.just(0), "files_total": st.just(9),
        "live_jobs": st.just(1),
    },
    **dict.fromkeys(
        (events.JobsAssigned, events.JobsActivated, events.JobsThrottled, events.JobsDispatched, events.JobsStarted,
         events.OutputsProduced, events.JobsTransferring, events.JobsMerging, events.JobsFinished, events.JobsFailed),
        OF_JOBS,
    ),
}  # fmt: skip
#: what each event of these classes asks for is as large as its task or chunk, or it is a command
ALONE = {
    events.TaskRegistered, events.TaskDefined, events.TaskReady, events.TaskMeasured, events.TaskPrepared,
    events.TaskCompleted, events.TaskCommandRequested, events.TaskCommanded, events.TaskReleased,
    events.TaskJumboSwitched, events.TaskPointsOpened, events.ChunkOffered, events.ChunkBrokered,
    events.ChunkUnplaceable, events.TaskOrderRequested, events.TaskSiteRequested,
}  # fmt: skip
WORK = {entry.event for entry in ENTRIES if entry.consumers}


def several(kind: type[Event]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.builds(kind, **STAMP, **FIELDS[kind]), max_size=8, unique_by=lambda one: one.event_id)


def ids_of(some: Iterable[Event]) -> dict[str, set[int]]:
    """Every id that some events name, by field."""
    found: dict[str, set[int]] = {}
    for event in some:
        for name in (
            "job_ids",
            "transfer_ids",
            "failed_job_ids",
            "without_storage_job_ids",
            "names_taken_job_ids",
            "refused_job_ids",
            "task_ids",
        ):
            found.setdefault(name, set()).update(getattr(event, name, ()))
    return found


def totals(some: Iterable[JobsEvent], count: Callable[[JobsEvent], Counter[Any]]) -> dict[Any, float]:
    found: Counter[Any] = Counter()
    for event in some:
        found.update(count(event))
    return {key: round(value, 3) for key, value in found.items() if value}


def statistics(event: JobsEvent) -> Counter[Any]:
    return Counter({(one.key, what): getattr(one, what) for one in changes_of(event.moves, VOS) for what in NUMBERS})


def outcomes(event: JobsEvent) -> Counter[Any]:
    found = outcomes_of(event.dated_moves, NOW)
    return Counter({(key, name): n_jobs for key, counts in found.items() for name, n_jobs in counts.items()})


def usage(event: JobsEvent) -> Counter[Any]:
    found = bucket_changes(event.dated_moves, NOW, width_s=300, core_powers_hs06={"A": 12.5}, usual_hs06=10.0)
    fields = ("cores", "hs06", "core_s", "hs06_s")
    return Counter({(one.key, field): getattr(one, field) for one in found for field in fields})


def latest(some: Iterable[JobsEvent]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for event in some:
        for queue, times in signs_of_life(event.dated_moves, NOW).items():
            known = found.get(queue, (None, None))
            pairs = zip(known, times, strict=True)
            found[queue] = tuple(max((one for one in pair if one), default=None) for pair in pairs)
    return found


def test_every_event_that_is_worked_on_merges_or_goes_alone() -> None:
    assert {event for event in WORK if event.shares_transaction} == set(FIELDS)
    assert {event for event in WORK if not event.shares_transaction} == ALONE


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_merged_events_name_all_that_each_names_whatever_the_order(kind: type[Event]) -> None:
    @given(several(kind), st.randoms())
    def holds(some: list[Any], random: Any) -> None:
        shuffled = random.sample(some, len(some))
        found = merged(some)
        assert ids_of(found) == ids_of(some)
        assert [one.model_dump() for one in merged(shuffled)] == [one.model_dump() for one in found]
        assert len({one.merge_key for one in found}) == len(found)
        assert {one.merge_key for one in found} == {one.merge_key for one in some}
        assert merged(found) == found

    holds()


@pytest.mark.parametrize("kind", [one for one in FIELDS if issubclass(one, JobsEvent)], ids=lambda kind: kind.__name__)
def test_what_is_counted_of_merged_events_is_the_sum_of_what_is_counted_of_each(kind: type[JobsEvent]) -> None:
    @given(several(kind))
    def holds(some: list[Any]) -> None:
        for count in (statistics, outcomes, usage):
            assert totals(merged(some), count) == totals(some, count)
        assert latest(merged(some)) == latest(some)

    holds()


@given(several(JobsReordered))
def test_moves_between_shares_are_summed(some: list[JobsReordered]) -> None:
    def shares(event: Any) -> Counter[Any]:
        found = changes_of_shares(event.share_moves, VOS)
        return Counter({(one.key, what): getattr(one, what) for one in found for what in NUMBERS})

    assert totals(merged(some), shares) == totals(some, shares)


@given(several(TaskProgressed))
def test_of_a_task_s_progress_the_newest_in_each_state_counts(some: Sequence[TaskProgressed]) -> None:
    newest = {(one.task_id, one.status): one for one in sorted(some, key=lambda one: one.event_id)}
    found = merged(some)
    assert sorted(found, key=lambda one: one.event_id) == sorted(newest.values(), key=lambda one: one.event_id)
    assert found == sorted(found, key=lambda one: (one.task_id, one.event_id)), "tasks are locked in order"


def test_events_that_merge_are_the_first_one_with_what_the_others_add() -> None:
    some = [events.JobsFinished(event_id=n, occurred_at=NOW, job_ids=(n, n + 1)) for n in (7, 5, 6)]
    [one] = merged(some)
    assert (one.event_id, one.job_ids, one.n_subjects) == (5, (5, 6, 7, 8), 4)
