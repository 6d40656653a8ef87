"""Leaves commands for the pilots that have jobs, and turns debug mode on and off."""

from __future__ import annotations

from services.job_dispatch.policy.pilot_commands import DEBUG_OFF, ENDING, OF_DEBUG_MODE, is_of_debug_mode, shows_job
from services.job_dispatch.policy.reports import ReportedJob
from services.job_dispatch.store import jobs as store
from services.job_dispatch.store.secrets import carries_secrets
from shared.auth import Caller, access
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork


class NotLive(Exception):
    """There is no such job, or it has ended."""


class CommandNotAllowed(Exception):
    """Somebody else may give this command."""


async def leave_command(database: Database, caller: Caller, job_id: int, command: str | None) -> None:
    """Leave a command for a job, or take it back (None; debugoff: whatever belongs to debug mode).

    Its pilot is told the command with every reply until it is taken back.

    Production and operators may give every command; the job's owner those of debug mode, and so may the pilot that
    has the job; all but operators for jobs of their VOs. Of a job that carries its owner's secrets, what shows its
    files or output is for the owner and that pilot alone. What ends the job needs the right cancel, the rest
    modify. Raises NotLive, CommandNotAllowed.
    """
    right = "cancel" if command in ENDING else "modify"
    if not caller.has_right(right):
        raise CommandNotAllowed(f"{caller.name} needs the right {right}, to which the token is not limited")
    async with database.begin(reason=f"command by {caller.name}") as work:
        jobs = await store.lock_jobs(work.connection, [job_id])
        if job_id not in jobs:
            raise NotLive(f"job {job_id} is not live")
        await _check(work, caller, jobs[job_id].row, command)
        if command == DEBUG_OFF:
            done = await store.take_back_commands(work.connection, job_id, OF_DEBUG_MODE)
        else:
            done = await store.set_command(work.connection, job_id, command)
        if not done:
            raise NotLive(f"job {job_id} is not live")
        details = {"command": command}
        await store.audit(work.connection, caller, "job/set_command", f"job {job_id}", details)


async def _check(work: UnitOfWork, caller: Caller, row: ReportedJob, command: str | None) -> None:
    whose = access.Whose.of(row.user_name, row.vo)
    has_it = caller.may_for(row.vo, "pilot") and caller.name == row.claimed_by
    # an owner takes nothing back that production ordered
    of_debug = all(is_of_debug_mode(one) for one in (command, row.command) if one)
    others = None
    if not caller.may_for(row.vo, "production") and not (
        of_debug and (access.COMMANDS.allows(caller, whose) or has_it)
    ):
        others = access.COMMANDS.meaning if of_debug else access.PRODUCTION.meaning
    elif (
        command
        and shows_job(command)
        and not (access.OWN.allows(caller, whose) or has_it)
        and await carries_secrets(work.connection, row.job_id)
    ):
        others = f"{access.OWN.meaning} and its pilot, as it may carry secrets"
    if others is not None:
        said = f"job {row.job_id} is of the VO {row.vo}; this is for {others}"
        raise CommandNotAllowed(f"{caller.name} may not: {said}")
