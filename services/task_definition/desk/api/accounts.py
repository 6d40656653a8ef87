"""/api/v1/group and /api/v1/user: what groups are due, and the permissions, quotas and caps of users.

Operators write. Groups are told to the members of their VO; what is said of a user to that user, to production of the
VO for which it is said (for all VOs: of those for which the user has tasks) and to operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends
from pydantic import BaseModel, ConfigDict, Field, field_validator
from starlette.responses import Response

from services.task_definition.desk.store import accounts as store
from services.task_definition.desk.store.audit import audit
from shared.auth import Caller, access, require
from shared.auth.access import Whose
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.model.grid_preferences import MEANINGS, letters_without_effect, unknown_letters
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem
from shared.model.whole_numbers import LARGEST_INT4
from shared.web.envelope import BAD_REQUEST, NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute

Member = Annotated[Caller, Depends(require(access.MEMBERS))]
Reader = Annotated[Caller, Depends(require(access.DETAILS))]
Operator = Annotated[Caller, Depends(require(access.OPERATORS, "operator", right="modify"))]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f,]+$")]
#: what is said for one VO; "": for all VOs of whom nothing else is said
UserVo = Annotated[str, Field(max_length=16, pattern=r"^\S*$")]
Factor = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
#: names that a refusal lists
MOST_SHOWN = 20
Cap = Annotated[int, Field(strict=True, gt=0, le=LARGEST_INT4)] | None


class GroupRecord(BaseModel):
    """A group of users; fields that are left out keep what they have, or get what is said here."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    name: Name
    vo: Annotated[str, Field(min_length=1, max_length=16)]
    job_share: Annotated[Factor, Field(alias="JobShare")] = 1000.0
    job_sharing: Annotated[bool, Field(alias="JOB_SHARING")] = False
    allows_background: Annotated[bool, Field(alias="AllowBackgroundTQs")] = False


class UserRecord(BaseModel):
    """A user, in one VO or (`vo` empty) in all.

    What is said for a VO holds there instead of what is said for all.
    `quota`: 1 + quota divides what counts against the user when priorities are balanced; `priority_weight`: how far the
    user is over the quota, 100 x weight is taken off the priority of new jobs; caps of running jobs and cores: null
    for those that hold for everybody.
    """

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    user_name: Name
    vo: UserVo = ""
    groups: Annotated[list[Name], Field(max_length=1000)] = []
    grid_pref: Annotated[str, Field(max_length=20, alias="GRIDPREF")] = ""
    quota: Factor = 0.0
    priority_weight: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 0.0
    cap_running_jobs: Cap = None
    cap_running_cores: Cap = None
    disk_quota_gb: Factor | None = None

    @field_validator("grid_pref")
    @classmethod
    def _letters(cls, value: str) -> str:
        unknown = unknown_letters(value)
        if unknown:
            raise ValueError(f"allowed: the letters {', '.join(MEANINGS)}; unknown: {', '.join(unknown)}")
        return "".join(sorted(set(value)))


class GroupList(BaseModel):
    """All groups: others go."""

    model_config = ConfigDict(extra="forbid")
    groups: Annotated[list[GroupRecord], Field(max_length=10_000)]


class UserList(BaseModel):
    """All users: others go back to what holds for everybody."""

    model_config = ConfigDict(extra="forbid")
    users: Annotated[list[UserRecord], Field(max_length=100_000)]


def account_routes(database: Database) -> APIRouter:
    """List, load, set, remove, of groups and of users."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1", tags=["groups and users"])
    groups, users = GroupRoutes(database), UserRoutes(database)
    for name, routes in (("group", groups), ("user", users)):
        router.get(f"/{name}/list")(routes.list_all)
        router.post(f"/{name}/load")(routes.load)
        router.post(f"/{name}/set")(routes.set)
        router.post(f"/{name}/remove")(routes.remove)
    return router


class GroupRoutes:
    """One method for each path under /api/v1/group."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_all(self, caller: Member) -> Response:
        """Every group of the caller's VOs: its share, how it is divided, how many users it has."""
        async with self._database.read() as connection:
            rows = await store.groups(connection)
        return Envelope([row for row in rows if access.MEMBERS.allows(caller, Whose(vo=row["vo"]))])

    async def load(self, caller: Operator, request: GroupList) -> Response:
        """Put these groups in the place of all others."""
        problems = _twice("groups", [(one.vo, one.name) for one in request.groups])
        if problems:
            return refused(BAD_REQUEST, problems=problems)
        async with self._database.begin(reason=f"groups loaded by {caller.name}") as work:
            await store.put_groups(work.connection, [one.model_dump() for one in request.groups], replace=True)
            await audit(
                work.connection,
                caller=caller,
                verb="group.load",
                target="groups",
                details={"n_groups": len(request.groups)},
            )
        return Envelope({"n_groups": len(request.groups)}, f"{len(request.groups)} groups loaded")

    async def set(self, caller: Operator, request: GroupRecord) -> Response:
        """Make a group, or change the fields that are given."""
        given = request.model_dump(exclude_unset=True)
        async with self._database.begin(reason=f"group {request.name} set by {caller.name}") as work:
            known = [one for one in await store.groups(work.connection) if _is(one, request.vo, request.name)]
            record = {**request.model_dump(), **(known[0] if known else {}), **given}
            await store.put_groups(work.connection, [record], replace=False)
            await audit(
                work.connection,
                caller=caller,
                verb="group.set",
                target=f"group:{request.vo}/{request.name}",
                details=given,
            )
        return Envelope({name: record[name] for name in GroupRecord.model_fields}, f"group {request.name} is set")

    async def remove(
        self, caller: Operator, name: Annotated[str, Body(max_length=200)], vo: Annotated[str, Body(max_length=16)]
    ) -> Response:
        """Forget a group."""
        async with self._database.begin(reason=f"group {name} removed by {caller.name}") as work:
            if not await store.forget_group(work.connection, vo, name):
                return refused(NOT_FOUND, f"{vo} has no group {name}")
            await audit(work.connection, caller=caller, verb="group.remove", target=f"group:{vo}/{name}", details={})
        return Envelope(None, f"group {name} is removed")


class UserRoutes:
    """One method for each path under /api/v1/user."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_all(self, caller: Reader) -> Response:
        """Users with their letters and what these mean, as far as they are told to the caller."""
        async with self._database.read() as connection:
            rows = await store.users(connection, caller.vos)
        return Envelope([_told(row) for row in rows if _is_told(row, caller)])

    async def load(self, caller: Operator, request: UserList) -> Response:
        """Put these users in the place of all others."""
        problems = _twice("users", [(one.user_name, one.vo) for one in request.users])
        if problems:
            return refused(BAD_REQUEST, problems=problems)
        async with self._database.begin(reason=f"users loaded by {caller.name}") as work:
            problems = await _unknown_groups(work, request.users, "users.{}.groups")
            if problems:
                return refused(BAD_REQUEST, problems=problems)
            await store.put_users(work.connection, [one.model_dump() for one in request.users], replace=True)
            await audit(
                work.connection,
                caller=caller,
                verb="user.load",
                target="users",
                details={"n_users": len(request.users)},
            )
        letters = "".join(one.grid_pref for one in request.users)
        return Envelope({"n_users": len(request.users)}, _message(f"{len(request.users)} users loaded", letters))

    async def set(self, caller: Operator, request: UserRecord) -> Response:
        """Make a user's record, or change the fields that are given."""
        given = request.model_dump(exclude_unset=True)
        async with self._database.begin(reason=f"user {request.user_name} set by {caller.name}") as work:
            problems = await _unknown_groups(work, [request], "groups")
            if problems:
                return refused(BAD_REQUEST, problems=problems)
            known = await store.user(work.connection, request.user_name, request.vo)
            record = {**request.model_dump(), **(known or {}), **given}
            await store.put_users(work.connection, [record], replace=False)
            await audit(
                work.connection, caller=caller, verb="user.set", target=f"user:{request.user_name}", details=given
            )
        said = _message(f"user {request.user_name} is set", record["grid_pref"])
        return Envelope({name: record[name] for name in UserRecord.model_fields}, said)

    async def remove(
        self, caller: Operator, user_name: Annotated[str, Body(max_length=200)], vo: Annotated[UserVo, Body()] = ""
    ) -> Response:
        """Forget what is said of a user, for a VO or for all: what holds for everybody holds again."""
        async with self._database.begin(reason=f"user {user_name} removed by {caller.name}") as work:
            if not await store.forget_user(work.connection, user_name, vo):
                return refused(NOT_FOUND, f"nothing is said of a user {user_name} for {vo or 'all VOs'}")
            await audit(
                work.connection, caller=caller, verb="user.remove", target=f"user:{user_name}", details={"vo": vo}
            )
        return Envelope(None, f"user {user_name} is removed")


def _message(said: str, letters: str) -> str:
    unused = letters_without_effect(letters)
    return f"{said}; {unused}" if unused else said


def _is_told(row: dict[str, Any], caller: Caller) -> bool:
    """What is said for all VOs concerns production of those for which the user has tasks, and of every VO."""
    user_name = row["user_name"]
    if access.OPERATORS.allows(caller, Whose()) or access.OWN.allows(caller, Whose(user_name, row["vo"])):
        return True
    return any(access.DETAILS.allows(caller, Whose(user_name, vo)) for vo in row["vos"])


def _told(row: dict[str, Any]) -> dict[str, Any]:
    told = {name: value for name, value in row.items() if name != "vos"}
    return {**told, "may": [MEANINGS[one] for one in row["grid_pref"]]}


def _is(record: dict[str, Any], vo: str, name: str) -> bool:
    return bool((record["vo"], record["name"]) == (vo, name))


def _twice(field: str, names: Sequence[Any]) -> list[FieldProblem]:
    first = {name: place for place, name in reversed(list(enumerate(names)))}
    return [
        problem(f"{field}.{place}", name, "is given twice; allowed: once")
        for place, name in enumerate(names)
        if first[name] != place
    ]


async def _unknown_groups(work: UnitOfWork, users: Sequence[UserRecord], field: str) -> list[FieldProblem]:
    """Groups of these users that there are not; `field` has a place for the user's name."""
    every = {(one["vo"], one["name"]) for one in await store.groups(work.connection)}
    found = []
    for one in users:
        known = {name for vo, name in every if one.vo in ("", vo)}
        allowed = f"allowed: {', '.join(sorted(known)[:MOST_SHOWN]) or 'none, as there is no group'} (make it first)"
        found += [problem(field.format(one.user_name), group, allowed) for group in one.groups if group not in known]
    return found
