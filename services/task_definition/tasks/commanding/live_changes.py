"""What operators change of a live task beside its rules: needs, jumbo jobs and copies of its jobs.

Source: JEDI: The JEDI_Tasks table, Jumbo jobs, Job cloning. The changed parameters are checked as a whole task; the
next jobs follow them, and an incremental execution keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.task_definition.tasks.commanding.changing import Changes
from services.task_definition.tasks.commanding.command import Command, Execute, announce
from services.task_definition.tasks.policy import commands as rules
from services.task_definition.tasks.policy.command_table import ATTRIBUTES, CLONING_MODES
from services.task_definition.tasks.policy.event_service import event_service_column
from services.task_definition.tasks.policy.task_spec import TaskSpec, parse_task
from services.task_definition.tasks.store import commands as store_commands
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.tasks import TaskRow
from shared.db.unit_of_work import UnitOfWork
from shared.task.stored import named

#: JSON name, column and column of the unit of what the field calls ramCount, ...
_NEEDS: Mapping[str, tuple[str, str, str]] = {
    "ramCount": ("ramCount", "ram_count", "ram_unit"),
    "wallTime": ("walltime", "walltime", "walltime_unit"),
    "cpuTime": ("cpuTime", "cpu_time", "cpu_time_unit"),
    "coreCount": ("coreCount", "core_count", ""),
}
WAITING, DISABLED = "W", "D"


class LiveChanges:
    """One method for each command; the task's row is locked."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    def verbs(self) -> dict[str, Execute]:
        """What it carries out."""
        return {
            "change_attribute": self._change_attribute,
            "enable_jumbo_jobs": self._enable_jumbo_jobs,
            "enable_job_cloning": self._enable_cloning,
            "disable_job_cloning": self._disable_cloning,
        }

    async def _change_attribute(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        name, value = command.details.get("attribute_name"), command.details.get("value")
        if name not in ATTRIBUTES:
            return rules.refused_value("attribute_name", name, f"allowed: {', '.join(ATTRIBUTES)}")
        key, column, unit = _NEEDS[name]
        spec = await self._changed(work, task, command, {key: value})
        if isinstance(spec, rules.Reply):
            return spec
        stated = spec.columns()
        await store_commands.change_needs(
            work, task.task_id, column=column, value=stated[column], unit=stated.get(unit)
        )
        return await self._told(work, task, command, f"{name} = {value}")

    async def _enable_jumbo_jobs(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        """None at all, or so many; the scouts are not waited for then, as they process no events."""
        total = int(command.details.get("jumbo_jobs_total") or 0)
        at_site = int(command.details.get("jumbo_jobs_per_site") or 0) or total
        if total and task.site:
            told = f"not for a task that is sent to one site, {task.site}; allowed: 0"
            return rules.refused_value("jumbo_jobs_total", total, told)
        wanted = named(n_jumbo_jobs=total or None, n_jumbo_jobs_per_site=at_site or None)
        spec = await self._changed(work, task, command, wanted)
        if isinstance(spec, rules.Reply):
            return spec
        await store_commands.change_event_service(
            work,
            task.task_id,
            event_service=event_service_column(spec.parameters),
            use_jumbo=WAITING if total else DISABLED,
        )
        if total and task.status == "scouting":
            await announce(work, task, Command("avalanche", task.task_id), task.status)
        return await self._told(work, task, command, f"{total} jumbo jobs, at most {at_site} at a site")

    async def _enable_cloning(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        mode = command.details.get("mode") or CLONING_MODES[0]
        if mode not in CLONING_MODES:
            return rules.refused_value("mode", mode, f"allowed: {', '.join(CLONING_MODES)}")
        copies, sites = command.details.get("multiplicity", 2), command.details.get("num_sites", 2)
        wanted = named(cloning=mode, n_consumers=copies, n_sites_per_job=sites)
        return await self._clone(work, task, command, wanted, f"{copies} copies of each job at {sites} sites, {mode}")

    async def _disable_cloning(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        if task.rules.cloning is None:
            return rules.Reply(rules.IRRELEVANT, f"task {task.task_id} makes no copies of its jobs")
        wanted = named(cloning=None, n_consumers=None, n_sites_per_job=None)
        return await self._clone(work, task, command, wanted, "no copies of its jobs")

    async def _clone(
        self, work: UnitOfWork, task: TaskRow, command: Command, wanted: Mapping[str, Any], said: str
    ) -> rules.Reply:
        spec = await self._changed(work, task, command, wanted)
        if isinstance(spec, rules.Reply):
            return spec
        await store_commands.change_event_service(
            work, task.task_id, event_service=event_service_column(spec.parameters), use_jumbo=None
        )
        return await self._told(work, task, command, said)

    async def _changed(
        self, work: UnitOfWork, task: TaskRow, command: Command, wanted: Mapping[str, Any]
    ) -> TaskSpec | rules.Reply:
        """The task with these parameters (None: without), or why there is none; then nothing is changed."""
        old = await store.parameters(work.connection, task.task_id)
        new = {name: value for name, value in {**old, **wanted}.items() if value is not None}
        problems = await self._changes.replace(work, task, new, wanted, command.by)
        if problems:
            return rules.Reply(rules.BAD_VALUE, "; ".join(str(one) for one in problems), problems)
        return parse_task(new)

    async def _told(self, work: UnitOfWork, task: TaskRow, command: Command, said: str) -> rules.Reply:
        """What waits may go on with the new values."""
        await announce(work, task, command, task.status)
        if task.status == "pending":
            await store.release_now(work, task.task_id)
        return rules.Reply(rules.OK, f"task {task.task_id}: {said}, from its next jobs on")
