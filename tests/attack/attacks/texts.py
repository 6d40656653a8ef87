"""What others wrote reaches terminals and logs as anything but text."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.attack.attacks import attack
from tests.attack.ground import GotThrough, Ground, require
from tests.attack.stage import archive, report, upload

#: clipboard, title, clear, colours, cursor, a link, letters that run backwards, and a line of its own
ESCAPES = "\x1b]52;c;ZXZpbA==\x07\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b2J\u202egnp.exe\u2066\u200f\x1bP+q\x1b\\"
#: raw bytes that a terminal would obey, or that turn letters around
RAW = (b"\x1b", b"\x07", b"\x00", b"\x9b2J", b"\xc2\x9b", *(chr(one).encode() for one in (
    *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)))  # fmt: skip
FORGED = "FORGEDLINE"


def _said_by_pilot(ground: Ground) -> None:
    """Escapes in every text of a report."""
    pilot, job_id = ground.ada.pilot, ground.ada.jobs["running"]
    texts = dict.fromkeys(
        ("node", "batch_id", "stdout", "job_metrics", "job_sub_status", "pilot_id", "scheduler_id", "site_name",
         "pilot_log", "corrupted_files", "cpu_consumption_unit", "cpu_architecture_level", "exe_error_diag",
         "pilot_error_diag", "start_time", "meta_data"), f"said {ESCAPES}\n{FORGED}",
    )  # fmt: skip
    report(pilot, job_id, "running", **texts)
    spare = pilot.post("/api/v1/pilot/acquire_jobs", {
        "site_name": "CERN", "memory": 64_000, "disk_space": 500_000, "task_id": ground.ada.task_id,
        "node": f"node {ESCAPES}"})  # fmt: skip
    for one in (spare.data or {}).get("jobs") or ():
        report(pilot, int(one["PandaID"]), "failed", pilot_error_code=1305, **texts)
    nodes = {"site": "CERN", "host_name": f"n{ESCAPES}"[:60], "cpu_model": f"cpu {ESCAPES}"[:60]}
    pilot.post("/api/v1/pilot/update_worker_node", nodes)


def _said_by_user(ground: Ground) -> list[int]:
    """Escapes in every text of tasks; the ids of those that were taken."""
    who, found = ground.ada.person, []
    odd = f"said {ESCAPES} {FORGED}"
    for changes in (
        {"taskName": f"user.ada.{odd}"}, {"processingType": odd[:40]}, {"campaign": odd[:30]}, {"transPath": odd},
        {"transUses": odd[:60]}, {"requirements": f'Site == "{odd}"'}, {"architecture": odd}, {"cloud": odd[:10]},
        {"workingGroup": odd[:30]}, {"countryGroup": odd[:10]}, {"site": odd}, {"excludedSite": odd},
        {"container_name": odd}, {"jobParameters": [{"type": "constant", "value": odd}]},
    ):  # fmt: skip
        task = {**ground.stage.task_of(ground.ada, "escaping task"), **changes}
        answer = who.post("/api/v1/task/submit", {"task_parameters": task})
        if answer.is_success:
            found.append(int(answer.data))
    task = ground.stage.task_of(ground.ada, "escaping task")
    task["jobParameters"][0]["value"] += odd
    answer = who.post("/api/v1/task/submit", {"task_parameters": task})
    if answer.is_success:
        found.append(int(answer.data))
    who.post("/api/v1/task/pause", {"task_id": ground.ada.spare_task_id, "reason": odd})
    body = {"task_parameters": {**task, "taskName": f"user.ada.{odd}"}, "period_s": 86_400}
    who.post("/api/v1/periodic_task/submit", body)
    who.post("/api/v1/creds/set_user_secrets", {"key": odd[:100], "value": odd})
    upload(who, f"sources.{odd}.tar.gz", archive(odd))
    one = {"scope": "data23_13p6TeV", "name": f"data23_13p6TeV.{odd}", "state": "open", "attributes": {"said": odd}}
    named = {**one, "name": "data23_13p6TeV.escapes"}
    for dataset in (one, named):
        ground.ada.production.post("/api/v1/catalogue/import", {"format": "orrery-catalogue/1", "datasets": [dataset]})
    return found


@attack("escapes in texts of users and pilots reach the terminal of whoever reads them")
def terminals(ground: Ground) -> None:
    _said_by_pilot(ground)
    tasks = _said_by_user(ground)
    ground.wait(1.5)
    task, job = str(ground.ada.task_id), str(ground.ada.jobs["running"])
    verbs = [
        ("jobs", "--task", task), ("explain", "job", job, "--all"), ("explain", "task", task, "--all"),
        ("jobs", "--stdout", job), ("task", str(tasks[-1] if tasks else task), "--parameters"),
    ]  # fmt: skip
    if not ground.small:
        verbs += [("task", task), ("jobs", job), ("jobs", "--task", task, "--json"), ("tasks", "--json"),
                  ("periodic", "list"), ("users", "list"), ("queues",), ("task-queues",), ("config", "list"),
                  ("explain", "task", str(ground.ada.spare_task_id), "--all"), ("shares", "--explain"),
                  ("explain", "job", job, "--json"), ("bus", "parked"), ("check",), ("tasks",), ("catalogue", "show"),
                  ("work-queues", "list")]  # fmt: skip
        verbs += [("explain", "task", str(one), "--all") for one in tasks]
        verbs += [("task", str(one), "--parameters") for one in tasks]
    token = ground.people.operator.token or ""
    with ThreadPoolExecutor(3) as pool:
        outputs = list(pool.map(lambda verb: ground.system.orrery(token, *verb), verbs))
    wrong = []
    for verb, done in zip(verbs, outputs, strict=True):
        raw = sorted({repr(one) for one in RAW if one in done.stdout + done.stderr})
        if raw:
            wrong.append(f"orrery {' '.join(verb)}: {', '.join(raw[:4])}")
    require(not wrong, "; ".join(wrong[:6]))
    told = outputs[verbs.index(("jobs", "--stdout", job))].stdout
    require(b"said" in told, f"what the pilot wrote is not shown at all: {told[:200]!r}")


@attack("line breaks in what callers send make lines of the logs")
def log_lines(ground: Ground) -> None:
    broken = f"x\n{FORGED} CRITICAL all is well\r\n{FORGED}"
    who, nobody = ground.people["bob@cms"], ground.people.nobody
    for path in ("/api/v1/task/list", "/api/v1/config/get", "/api/v1/job/list", "/api/v1/catalogue/datasets"):
        who.get(path, **dict.fromkeys(("name", "user_name", "component", "key", "queue", "status"), broken))
    for person in (who, nobody):
        person.ask("GET", f"/api/v1/task/%0a{FORGED}%0d%0a{FORGED}")
        person.ask("GET", f"/cache/x%0a{FORGED}.gz")
        person.ask("GET", f"/cache/schedconfig/x%0a{FORGED}.all.json")
    who.post("/api/v1/task/submit", {"task_parameters": {"taskName": broken, broken: broken}})
    report(ground.bob.pilot, ground.bob.jobs["running"], broken, **{broken: broken, "node": broken})
    body = {"site_name": broken, "worker_id": 1, "harvester_id": broken, "status": "started"}
    ground.bob.pilot.post("/api/v1/pilot/update_worker_status", body)
    ground.bob.pilot.post("/api/v1/pilot/acquire_jobs", {"site_name": broken, "node": broken})
    for name, text in ground.system.logs().items():
        forged = [line for line in text.splitlines() if line.startswith(FORGED)]
        if forged:
            raise GotThrough(f"{name} has {len(forged)} lines that begin with {FORGED}")
