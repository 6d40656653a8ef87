"""Tasks, series, queues and slots of others are taken, steered or stopped; limits are passed."""

from __future__ import annotations

from typing import Any

from tests.attack.attacks import attack
from tests.attack.ground import GotThrough, Ground, require
from tests.attack.people import Person
from tests.attack.stage import QUEUE, Victim, acquire, report, wait_until

SECONDS = 1.0


def _submitted(ground: Ground, who: Person, near: Victim, **changes: Any) -> Any:
    task = ground.stage.task_of(near, "attacking task", by=who, **changes)
    return who.post("/api/v1/task/submit", {"task_parameters": task})


@attack("a task becomes the child of a task of another VO")
def foreign_parent(ground: Ground) -> None:
    for label in ("bob@cms", "production@cms", "iam:ada@atlas"):
        who = ground.people[label]
        near = ground.bob if label.endswith("cms") else ground.ada
        task, hers = ground.stage.task_of(near, "child", by=who), ground.ada.task_id
        for body in (
            {"task_parameters": task, "parent_tid": hers},
            {"task_parameters": {**task, "parent_tid": hers}},
        ):
            answer = who.post("/api/v1/task/submit", body)
            ground.refused(who, answer, "submits a child of ada's task", "parent_tid")


@attack("a task names a work queue that is not for it")
def work_queue(ground: Ground) -> None:
    operator = ground.people.operator
    queue = {"queue_id": 78, "name": "reserved", "label": "managed", "vo": "atlas", "order": 1, "share": 10.0,
             "criteria": "processingType = 'reserved'", "variables": None}  # fmt: skip
    operator.done(operator.post("/api/v1/work_queue/set", {"work_queue": queue}))
    try:
        for who, near in ((ground.ada.person, ground.ada), (ground.bob.person, ground.bob)):
            ground.refused(
                who, _submitted(ground, who, near, workQueueName="reserved"), "names the work queue", "workQueueName"
            )
    finally:
        operator.post("/api/v1/work_queue/remove", {"queue_id": 78})


@attack("a resource queue takes analysis out of the gates of its share")
def resource_queue(ground: Ground) -> None:
    operator, label = ground.people.operator, ground.fresh("resource")
    queue = {"queue_id": 79, "name": label, "label": "user", "vo": "atlas", "order": 2, "function": "Resource"}
    for who in (operator, ground.people["production@atlas"], ground.people["bob@cms"]):
        ground.refused(
            who, who.post("/api/v1/work_queue/set", {"work_queue": queue}), "makes one for analysis",
            "stays at the gates of its share" if who is operator else "",
        )  # fmt: skip
    task_id = ground.stage.submit(ground.ada, "task beside resource queues")
    query = (
        "SELECT q.queue_function FROM tasks t LEFT JOIN work_queues q ON q.queue_id = t.work_queue_id "
        "WHERE t.task_id = $1"
    )
    function = ground.rows.value(query, task_id)
    require(function != "Resource", f"the task {task_id} of a user is at a queue with the function {function}")


@attack("a pilot of another VO reports the worker of the same number of a VO")
def workers(ground: Ground) -> None:
    pilot = ground.ada.pilot
    worker = {"worker_id": 77, "harvester_id": ground.fresh("factory"), "site_name": QUEUE, "status": "started"}
    path, query = "/api/v1/pilot/update_worker_status", "SELECT * FROM workers WHERE harvester_id = $1 AND vo = 'atlas'"
    pilot.done(pilot.post(path, worker))
    before = [dict(row) for row in ground.rows.look(query, worker["harvester_id"])]
    require(len(before) == 1, f"the worker is not stored as one of atlas: {before}")
    for label in ("pilot@cms", "egi:pilot@cms", "production@cms"):
        for status in ("finished", "started"):
            answer = ground.people[label].post(path, {**worker, "status": status})
            require(answer.status < 500, f"{label} reports it {status}: an error of the service: {answer}")
        after = [dict(row) for row in ground.rows.look(query, worker["harvester_id"])]
        require(after == before, f"{label}: the worker of atlas was {before}, and is {after}")


@attack("production of one VO sets the slots of a queue that works for others, too")
def slots(ground: Ground) -> None:
    before = ground.rows.value("SELECT count(*) FROM queue_slots")
    for label in ("production@cms", "iam:production@cms", "pilot@cms"):
        who = ground.people[label]
        body = {"panda_queue": QUEUE, "slots": 0}
        ground.refused(who, who.post("/api/v1/harvester/add_target_slots", body), "sets 0 slots")
    require(ground.rows.value("SELECT count(*) FROM queue_slots") == before, "slots were stored")


@attack("an owner raises attempts without limit")
def attempts(ground: Ground) -> None:
    who = ground.ada.person
    body = {"task_id": ground.ada.spare_task_id, "increase": 1_000_000}
    answer = who.post("/api/v1/task/increase_attempts", body)
    for _ in range(60):
        who.post("/api/v1/task/increase_attempts", {"task_id": ground.ada.spare_task_id, "increase": 5})
    query = "SELECT max(max_attempt) FROM task_files WHERE task_id = $1"
    most = ground.rows.value(query, ground.ada.spare_task_id)
    require(most <= 100, f"an input file may be tried {most} times ({answer})")
    ground.refused(
        who, _submitted(ground, who, ground.ada, maxAttempt=1_000_000), "asks for it a million times", "maxAttempt"
    )


@attack("an owner lets go on what production paused, or takes back what it killed")
def holds(ground: Ground) -> None:
    who, other = ground.bob.person, ground.bob.production
    task_id = ground.bob.spare_task_id
    other.done(other.post("/api/v1/task/pause", {"task_id": task_id}))
    ground.refused(who, who.post("/api/v1/task/resume", {"task_id": task_id}), "resumes it", "pause by ")
    other.done(other.post("/api/v1/task/resume", {"task_id": task_id}))
    task_id = ground.stage.submit(ground.bob, "killed task")
    other.done(other.post("/api/v1/task/kill", {"task_id": task_id}))
    for verb in ("retry", "reactivate", "reload_input", "recover_lost_files"):
        answer = who.post(f"/api/v1/task/{verb}", {"task_id": task_id})
        ground.refused(who, answer, f"says {verb} of it")


@attack("one question describes jobs without number")
def descriptions(ground: Ground) -> None:
    who, job_ids = ground.ada.person, [ground.ada.jobs["running"]] * 20_000
    for path in ("/api/v1/job/get_description", "/api/v1/job/get_description_incl_archive"):
        answer = who.post(path, {"job_ids": job_ids})
        ground.refused(who, answer, f"asks {path} for {len(job_ids)} jobs")


@attack("a user's task takes more priority than its class of work allows")
def priority(ground: Ground) -> None:
    who = ground.bob.person
    body = {"task_id": ground.bob.spare_task_id, "priority": 2_000_000}
    ground.refused(who, who.post("/api/v1/task/change_priority", body), "sets the priority 2000000")
    job = {"job_id": ground.bob.jobs["spare"], "priority": 9_999}
    ground.refused(who, who.post("/api/v1/job/change_priority", job), "sets the priority 9999 of a job")


@attack("a list of jobs with one of bob's own kills ada's, too")
def kill_with_own(ground: Ground) -> None:
    who, hers = ground.bob.person, ground.ada.jobs["spare"]
    body = {"job_ids": [hers, ground.bob.jobs["spare"], hers]}
    who.post("/api/v1/job/kill", body)
    status = ground.rows.value("SELECT status FROM every_job WHERE job_id = $1", hers)
    require(status not in ("cancelled", "closed"), f"the job of ada is {status}")


@attack("somebody claims a VO or a role that the token does not have")
def origin(ground: Ground) -> None:
    claims = (
        "atlas",
        "atlas.production",
        "atlas:production",
        "cms.operator",
        "cms/operator",
        "cms.production",
        "*",
        "",
    )
    for claim in claims:
        who = ground.people["bob@cms"].acting(claim)
        for path in ("/api/v1/grid/world", "/api/v1/audit"):
            ground.refused(who, who.get(path), f"reads {path} as {claim!r}")
        answer = who.post("/api/v1/task/kill", {"task_id": ground.ada.task_id})
        ground.refused(who, answer, f"kills a task as {claim!r}")


@attack("a pilot of another VO takes, reports and ends jobs of a VO")
def pilots(ground: Ground) -> None:
    for label in ("pilot@cms", "egi:pilot@cms"):
        who = ground.people[label]
        for fields in ({"task_id": ground.ada.task_id}, {"prod_user_id": "ada"}, {"working_group": "atlas"}):
            body = {"site_name": QUEUE, "memory": 64_000, "disk_space": 500_000, **fields}
            ground.tells_nothing(who, who.post("/api/v1/pilot/acquire_jobs", body).text, "the job that it gets")
        for status in ("running", "holding", "finished", "failed"):
            body = {"job_id": ground.ada.jobs["running"], "job_status": status}
            ground.refused(who, who.post("/api/v1/pilot/update_job", body), f"reports it {status}")
    status = ground.rows.value("SELECT status FROM every_job WHERE job_id = $1", ground.ada.jobs["running"])
    require(status not in ("failed", "finished"), f"the job is {status}")


def _somebody(ground: Ground, name: str) -> Person:
    """Another user of atlas, of whom nothing is on the stage."""
    return ground.people.with_token(f"{name}@atlas", ground.system.authority.issue(name, ["user"], ["atlas"]))


def _task_of(ground: Ground, name: str) -> dict[str, Any]:
    """A task of that user with names of their own."""
    task = ground.stage.task_of(ground.ada, f"task of {name}", userName=name)
    for parameter in (task["jobParameters"][2], task["log"]):
        parameter["dataset"] = f"user.{name}.{ground.fresh('written')}.$JEDITASKID"
    return {**task, "taskName": f"user.{name}.{ground.fresh('task')}"}


def _series_of_carl(ground: Ground) -> tuple[str, int]:
    """A series that is due in some seconds, whose owner is then revoked."""
    carl, operator = _somebody(ground, "carl"), ground.people.operator
    due = ground.rows.value("SELECT (orrery_now() + interval '14 seconds')::text")
    body = {"task_parameters": _task_of(ground, "carl"), "period_s": 60, "starts_at": due.replace(" ", "T")}
    periodic_id = int(carl.done(carl.post("/api/v1/periodic_task/submit", body)))
    operator.done(operator.post("/api/v1/token/revoke", {"subject": "carl"}))
    return due, periodic_id


@attack("a periodic series goes on after its owner was revoked", begins=_series_of_carl)
def series_of_revoked(ground: Ground, begun: tuple[str, int]) -> None:
    due, periodic_id = begun
    wait_until(
        lambda: bool(ground.rows.value(f"SELECT orrery_now() > '{due}'::timestamptz + interval '8 seconds'")),
        "time of the series",
    )
    n_tasks = ground.rows.value("SELECT count(*) FROM tasks WHERE user_name = 'carl'")
    status = ground.rows.value("SELECT status FROM periodic_tasks WHERE periodic_id = $1", periodic_id)
    require(n_tasks == 0, f"{n_tasks} tasks of carl were submitted after he was revoked; the series is {status}")


def _capped(ground: Ground) -> int:
    """Two jobs of dan run, with a cap of one: the others are throttled within a minute."""
    operator, dan, pilot = ground.people.operator, _somebody(ground, "dan"), ground.ada.pilot
    task_id = int(dan.done(dan.post("/api/v1/task/submit", {"task_parameters": _task_of(ground, "dan")})))
    ground.stage.wait_for_jobs(Victim(dan, dan, pilot, ground.ada.whose), task_id, 3)
    for one in acquire(pilot, task_id=task_id, n_jobs=2):
        report(pilot, int(one["PandaID"]), "running")
    said = {"user_name": "dan", "cap_running_jobs": 1}
    if not operator.post("/api/v1/user/set", {**said, "vo": "atlas"}).is_success:
        operator.done(operator.post("/api/v1/user/set", said))
    return task_id


@attack("an owner pauses and resumes a task whose jobs caps throttled", full=True, begins=_capped)
def throttled(ground: Ground, task_id: int) -> None:
    query = f"SELECT count(*) FROM jobs WHERE task_id = {task_id} AND status = "
    for _ in range(300):
        if ground.rows.value(query + "'throttled'") > 0:
            break
        ground.wait(0.4)
    else:
        raise GotThrough("no job was throttled within two minutes")
    dan = _somebody(ground, "dan")
    for verb in ("pause", "resume"):
        dan.post(f"/api/v1/task/{verb}", {"task_id": task_id})
        ground.wait(3 * SECONDS)
    released = ground.rows.value(query + "'activated'")
    require(released == 0, f"{released} jobs wait for pilots again")
