"""Ranges of events of others are taken or told to somebody who runs jobs of their own as a pilot."""

from __future__ import annotations

import json

from tests.attack.attacks import attack
from tests.attack.ground import Ground, require
from tests.attack.people import Person
from tests.attack.stage import acquire

NOWHERE = 987_654_321
TAKE, COUNT, STATES = (f"/api/v1/event/{name}" for name in (
    "acquire_event_ranges", "get_available_event_range_count", "get_event_range_statuses"
))  # fmt: skip


def _event_job(ground: Ground, who: Person) -> tuple[int, int]:
    """A job of ada's event-service task, acquired by that person as its pilot, and its task."""
    task_id = ground.stage.submit(ground.ada, "event task", nEventsPerWorker=10, nEsConsumers=1)
    ground.stage.wait_for_jobs(ground.ada, task_id, 1)
    found = acquire(who, task_id=task_id, prod_source_label="user", prod_user_id=ground.ada.whose.owner)
    require(bool(found), f"{who.label} gets no job of the task {task_id}")
    return int(found[0]["PandaID"]), task_id


def _answers(who: Person, job_id: int, task_id: int) -> list[str]:
    """What is told of the ranges of a job, without its ids."""
    pair = json.dumps([{"task_id": task_id, "job_id": job_id}])
    answers = (
        who.post(TAKE, {"job_id": job_id, "task_id": task_id, "n_ranges": 1}),
        who.get(COUNT, job_id=job_id, task_id=task_id),
        who.get(STATES, job_task_ids=pair),
    )
    return [f"{one.status} {one.text}".replace(f"job {job_id}", "job J") for one in answers]


@attack("a user's own pilot takes ranges of the jobs of others, or is refused those of its own")
def own_pilot(ground: Ground) -> None:
    ada, others = ground.ada.person, [ground.people[label] for label in ("bob@atlas", "bob@cms", "iam:ada@atlas")]
    job_id, task_id = _event_job(ground, ada)
    for who in others:
        foreign, absent = _answers(who, job_id, task_id), _answers(who, NOWHERE, NOWHERE + 1)
        require(foreign == absent, f"{who.label}: ada's job: {foreign}; none: {absent}")
    taken = ada.done(ada.post(TAKE, {"job_id": job_id, "task_id": task_id, "n_ranges": 2}))
    require(len(taken) == 2, f"ada's own pilot gets {len(taken)} ranges of its job")
    told = ada.done(ada.get(STATES, job_task_ids=json.dumps([{"task_id": task_id, "job_id": job_id}])))
    require(len(told.get(str(job_id), {})) == 2, f"ada's own pilot is told {told}")
    for who in others:
        foreign, absent = _answers(who, job_id, task_id), _answers(who, NOWHERE, NOWHERE + 1)
        require(foreign == absent, f"{who.label}: ada's job with ranges: {foreign}; none: {absent}")
