"""What pilots and owners say of jobs: numbers that cannot be, commands that look around on worker nodes."""

from __future__ import annotations

from tests.attack.attacks import attack
from tests.attack.ground import Ground, require
from tests.attack.stage import report

METRICS = ("max_rss", "max_vmem", "max_swap", "max_pss", "avg_rss", "tot_rchar", "tot_wchar", "cpu_consumption_time",
           "n_events", "core_count", "mean_core_count", "n_input_files", "rate_rbytes")  # fmt: skip
COMMANDS = ("tail /etc/passwd", "tail ../../../etc/passwd", "ls /", "ls -la /root", "tail ~/.ssh/id_rsa", "du /home",
            "ps -ef;id", "tail $(id)", "ls ..", "tail x tobekilled", "bash -c id",
            "tail /proc/self/environ")  # fmt: skip


@attack("negative and absurd metrics are stored")
def metrics(ground: Ground) -> None:
    pilot, job_id = ground.bob.pilot, ground.bob.jobs["running"]
    for value in (-1, -(2**40), 2**62, 1e308):
        report(pilot, job_id, "running", **dict.fromkeys(METRICS, value))
    row = ground.rows.look("SELECT progress::text AS told FROM job_progress WHERE job_id = $1", job_id)
    stored = row[0]["told"] if row else ""
    odd = [one for one in ("-1", "-1099511627776", "4611686018427387904", "1e+308") if f": {one}" in stored]
    require(not odd, f"{', '.join(odd)} stand in the report: {stored[:200]}")


@attack("debug mode looks at files of the worker node")
def debug(ground: Ground) -> None:
    for who in (ground.ada.person, ground.ada.production):
        for command in COMMANDS:
            answer = who.post("/api/v1/job/set_command", {"job_id": ground.ada.jobs["running"], "command": command})
            ground.refused(who, answer, f"orders {command!r}")
    told = report(ground.ada.pilot, ground.ada.jobs["running"], "running").text
    require("/etc" not in told and "/root" not in told, f"the pilot is told: {told}")


@attack("a report is so large, deep or odd that a service fails")
def odd_reports(ground: Ground) -> None:
    pilot, job_id = ground.bob.pilot, ground.bob.jobs["running"]
    deep = "[" * 5000 + "]" * 5000
    bodies = (
        f'{{"job_id": {job_id}, "job_status": "running", "meta_data": {deep}}}',
        f'{{"job_id": {job_id}, "job_status": "running", "meta_data": "{"x" * 3_000_000}"}}',
        f'{{"job_id": {"9" * 5000}, "job_status": "running"}}',
        '{"job_id": NaN, "job_status": "running"}',
        "\x00\x01\x02", "[1,2", '"text"', "null", "{}" * 1000,
    )  # fmt: skip
    for body in bodies:
        answer = pilot.ask(
            "POST", "/api/v1/pilot/update_job", content=body, headers={"Content-Type": "application/json"}
        )
        require(answer.status < 500, f"{body[:60]!r}: {answer}")
