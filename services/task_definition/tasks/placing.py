"""Limits a task to one queue as another service asks, and lets it go anywhere again."""

from __future__ import annotations

from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.ends import SQL
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskSiteRequested
from shared.states.task import FINAL


async def on_task_site_requested(event: TaskSiteRequested, work: UnitOfWork) -> None:
    """Change where the task may go; whoever limited it otherwise meanwhile is right."""
    task = await store.lock(work, event.task_id)
    if task is None or task.status in FINAL or (task.site or "") != event.was:
        return
    await SQL.run(work.connection, "limit_to_site", task_id=task.task_id, site=event.site or None)
    await work.log_files(
        entity="order",
        task_id=task.task_id,
        ids=[task.task_id],
        from_status=f"queue {event.was or 'any'}",
        to_status=f"queue {event.site or 'any'}",
        reason=event.reason,
    )
