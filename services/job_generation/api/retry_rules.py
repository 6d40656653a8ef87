"""/api/v1/retry_rule: what is done after a job failed with an error.

Operators write, everybody with a token reads.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, FastAPI
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from starlette.responses import Response

from services.job_generation.retry.problems import problems_of
from services.job_generation.retry.store import retry_rules as store
from services.job_generation.retry.types import Action, ErrorSource, RetryRule
from shared.auth import Caller, access, require
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.model.whole_numbers import LARGEST_INT4
from shared.web.envelope import BAD_REQUEST, NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute, add_routes

Anyone = Annotated[Caller, Depends(require(access.STATES))]
Operator = Annotated[Caller, Depends(require(access.OPERATORS, "operator", right="modify"))]
RuleId = Annotated[int, Field(strict=True, ge=1, le=LARGEST_INT4)]
Code = Annotated[int, Field(strict=True, ge=-LARGEST_INT4, le=LARGEST_INT4)]
Text = Annotated[str, Field(min_length=1, max_length=256)]
MOST_RULES = 1000


class RetryRuleRecord(BaseModel):
    """A rule about an error of a job.

    `code`, `pattern`, `architecture`, `release`, `work_queue_id` null: any. `pattern`: an expression (RE2) that matches
    the error's text from its first letter. `parameters`: maxAttempt of limit_retry, fromAttempt of broken_input.
    `is_active` false: it is told, and changes nothing.
    """

    model_config = ConfigDict(extra="forbid")
    rule_id: RuleId
    source: ErrorSource
    action: Action
    code: Code | None = None
    pattern: Text | None = None
    parameters: Annotated[dict[Text, Annotated[int, Field(strict=True)]], Field(max_length=5)] = {}
    architecture: Text | None = None
    release: Text | None = None
    work_queue_id: RuleId | None = None
    expires_at: AwareDatetime | None = None
    is_active: bool = True
    note: Annotated[str, Field(max_length=500)] = ""

    def rule(self) -> RetryRule:
        return RetryRule(**self.model_dump())


class RetryRuleList(BaseModel):
    """All rules: others are removed."""

    model_config = ConfigDict(extra="forbid")
    retry_rules: Annotated[list[RetryRuleRecord], Field(max_length=MOST_RULES)]


def web_application(database: Database) -> FastAPI:
    """Routes under /api/v1/retry_rule; the runtime adds /livez, /readyz and /metrics."""
    web = FastAPI(title="Orrery job generation")
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/retry_rule", tags=["retry rules"])
    routes = RetryRuleRoutes(database)
    router.get("/list")(routes.list_all)
    router.post("/load")(routes.load)
    router.post("/set")(routes.set)
    router.post("/remove")(routes.remove)
    add_routes(web, router)
    return web


class RetryRuleRoutes:
    """One method for each path."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_all(self, caller: Anyone) -> Response:
        """Every rule by its number, with the jobs of the last days that it decided about."""
        async with self._database.read() as connection:
            rules = await store.retry_rules(connection)
            jobs = await store.jobs_of_rules(connection)
        return Envelope([{**_told(one), "n_jobs": jobs.get(one.rule_id, 0)} for one in rules])

    async def load(self, caller: Operator, request: RetryRuleList) -> Response:
        """Put these in the place of all others, or refuse them with every problem."""
        rules = [one.rule() for one in request.retry_rules]
        async with self._database.begin(reason=f"retry rules loaded by {caller.name}") as work:
            return await _put(work, caller, rules, "retry_rule.load", replace_all=True)

    async def set(self, caller: Operator, retry_rule: Annotated[RetryRuleRecord, Body(embed=True)]) -> Response:
        """Make one, or put the one with its number into the given shape; the others stay."""
        async with self._database.begin(reason=f"retry rule {retry_rule.rule_id} set by {caller.name}") as work:
            return await _put(work, caller, [retry_rule.rule()], "retry_rule.set")

    async def remove(self, caller: Operator, rule_id: Annotated[RuleId, Body(embed=True)]) -> Response:
        """Forget one."""
        async with self._database.begin(reason=f"retry rule {rule_id} removed by {caller.name}") as work:
            if not await store.remove_rule(work.connection, rule_id):
                return refused(NOT_FOUND, f"there is no retry rule {rule_id}")
            await store.record_change(work.connection, caller, "retry_rule.remove", {"rule_id": rule_id})
        return Envelope()


async def _put(
    work: UnitOfWork, caller: Caller, rules: list[RetryRule], verb: str, *, replace_all: bool = False
) -> Response:
    problems = problems_of(rules)
    if problems:
        return refused(BAD_REQUEST, problems=problems)
    if replace_all:
        await store.remove_other_rules(work.connection, rules)
    await store.put_rules(work.connection, rules)
    await store.record_change(work.connection, caller, verb, {"retry_rules": [_told(one) for one in rules]})
    return Envelope({"n_retry_rules": len(rules)}, f"{len(rules)} retry rules")


def _told(rule: RetryRule) -> dict[str, Any]:
    return {name: _as_text(value) for name, value in asdict(rule).items()}


def _as_text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
