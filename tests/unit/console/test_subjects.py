"""What an event may have changed, in the words of pages."""

from __future__ import annotations

import pytest

from services.console.policy.subjects import HEARD, subjects_of
from shared import events
from shared.events.base import Event

MOVE = events.JobMove(
    task_id=7, queue="CERN", resource_type="SCORE", gshare="prod", user_name="ada", from_status="running",
    to_status="holding", n_jobs=2, n_cores=2,
)  # fmt: skip


@pytest.mark.parametrize(
    ("event", "subjects"),
    [
        (events.TaskReady(task_id=7), {"task 7"}),
        (events.TaskRegistered(task_id=7), {"task 7", "new tasks"}),
        (events.JobsFinished(job_ids=(1, 2), moves=(MOVE,)), {"task 7", "job 1", "job 2", "queue CERN"}),
        (events.JobsGenerated(task_id=8, chunk_id=1, job_ids=(3,)), {"task 8", "job 3", "new jobs"}),
        (events.GridChanged(grid_version=1, queues=("CERN",)), {"queue CERN"}),
        (events.GridChanged(grid_version=1), {"grid"}),
        (events.StatisticsChanged(queues=("CERN", "BNL")), {"queue CERN", "queue BNL"}),
        (events.SharesCorrected(shares_version=1), {"shares"}),
    ],
)
def test_an_event_may_have_changed_what_it_names(event: Event, subjects: set[str]) -> None:
    assert subjects_of(event) == subjects


def test_every_event_about_a_task_is_heard() -> None:
    about = {one for one in events.BY_ROUTING_KEY.values() if issubclass(one.event, events.TaskEvent)}
    unheard = {one.event.__name__ for one in about} - {one.__name__ for one in HEARD}
    asked = {"TaskCommandRequested", "TaskOrderRequested", "TaskSiteRequested", "TaskPointsOpened"}
    assert unheard == asked, "they change nothing that a page shows"
