"""What is said of a task or job to those who may not have its details. Pure."""

from __future__ import annotations

from services.task_definition.tasks.policy.explaining import Facts, counts
from services.task_definition.tasks.policy.generation_texts import moment
from services.task_definition.tasks.policy.sub_statuses import job_meaning
from shared.states.task import MEANINGS as TASK_MEANINGS


def task_state_text(found: Facts) -> str:
    """State, share and counts of a task."""
    task = found["task"]
    return "\n".join(
        [
            f"task {task['task_id']}: {task['status']}, {TASK_MEANINGS[task['status']]}",
            f"  since {moment(task['state_change_time'])}; VO {task['vo']}, priority {task['current_priority']}, "
            f"share {task['gshare']}",
            f"  input: {counts(found['files'])}",
            f"  jobs: {counts(found['jobs'])}",
            f"  {task['withheld']}",
        ]
    )


def archived_task_text(found: Facts) -> str:
    """What is left to say of a task whose rows were dropped."""
    task = found["task"]
    lines = [
        f"task {task['task_id']}: {task['status']}, {TASK_MEANINGS[task['status']]}; archived on "
        f"{moment(found['archived_at'])}",
        f"  submitted {_time(task['creation_date'])}, ended {_time(task['end_time'] or task['state_change_time'])}",
    ]
    if task.get("withheld"):
        return "\n".join([*lines, f"  input: {counts(found['files'])}", f"  {task['withheld']}"])
    lines.append(f"  {task['task_name']}, of {task['user_name']}, VO {task['vo']}, share {task['gshare']}")
    lines += [f"  {task['error_dialog']}"] if task["error_dialog"] else []
    lines.append(f"  input: {counts(found['files'])}")
    lines += [f"  {one['type']} {one['dataset_name']}: {one['status']}, {one['n_files']} files"
              for one in found["datasets"]]  # fmt: skip
    lines.append("  its jobs, decisions and history are not kept any more; it cannot be tried again")
    return "\n".join(lines)


def _time(text: str | None) -> str:
    """A time of an archived row, to the second: there it is text."""
    return moment(None if text is None else text.replace("T", " "))


def job_state_text(found: Facts) -> str:
    """State and share of a job."""
    job = found["job"]
    means = job_meaning(job["status"], None)
    archived = " (archived)" if job["archived"] else ""
    return "\n".join(
        [
            f"job {job['job_id']} of task {job['task_id']}{archived}: {job['status']}, {means}",
            f"  {job['resource_type']}, attempt {job['attempt_number']}, priority {job['current_priority']}, share "
            f"{job['gshare']}; since {moment(job['state_change_time'])}",
            f"  {job['withheld']}",
        ]
    )
