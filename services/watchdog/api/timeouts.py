"""/api/v1/timeout: how long jobs may stay where they are.

Everybody with a token reads the rules of the field, members of a VO what it added; operators add that.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from services.watchdog.policy.rule_problems import problems_of
from services.watchdog.store import timeout_rules as store
from services.watchdog.store.due import SQL
from shared.auth import Caller, access
from shared.auth.access import Whose
from shared.auth.web import require
from shared.config.parameter import Parameter
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.model.whole_numbers import LARGEST_INT4
from shared.timeouts.added import asked_by, kept, rule_of, rules_in_force
from shared.timeouts.built_in import ANALYSIS_TIMEOUT, EXPIRED, HEARTBEAT_TIMEOUT, TRANSFERRING_SCALE
from shared.timeouts.limits import TimeLimits, limits_of
from shared.timeouts.rule import TimeRule, Varies, WatchedQueue
from shared.web.envelope import BAD_REQUEST, Envelope, refused
from shared.web.json_route import JsonRoute, add_routes

Anyone = Annotated[Caller, Depends(require(access.STATES))]
Operator = Annotated[Caller, Depends(require(access.OPERATORS, "operator", right="modify"))]
Word = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\w.-]+$")]
Words = Annotated[list[Word], Field(min_length=1, max_length=50)]
Whole = Annotated[int, Field(strict=True, ge=-LARGEST_INT4, le=LARGEST_INT4)]
MOST_RULES = 100


class ConditionRecord(BaseModel):
    """Which jobs an added rule is about; what is left out is not asked."""

    model_config = ConfigDict(extra="forbid")
    least_priority: Whole | None = None
    most_priority: Whole | None = None
    labels: Words | None = None
    analysis: bool | None = None
    job_types: list[Literal["scout", "normal", "merge", "build", "preprocess", "jumbo"]] | None = None
    workflows: Words | None = None
    queue_statuses: Words | None = None
    no_start_for_h: float | None = None


class TimeRuleRecord(BaseModel):
    """A rule that a VO adds: its jobs in these states end after `limit_h` hours.

    They are sent elsewhere (`next_state` closed) or given up (failed).
    """

    model_config = ConfigDict(extra="forbid")
    name: Word
    states: Annotated[list[str], Field(max_length=20)]
    since: Literal["creation", "state change", "heartbeat"] = "state change"
    limit_h: float
    next_state: str = "closed"
    error_code: Whole = EXPIRED
    source: Annotated[str, Field(min_length=1, max_length=200)]
    when: ConditionRecord = ConditionRecord()

    def rule(self, vo: str) -> TimeRule:
        return rule_of(self.name, vo, {**self.model_dump(), "when": self.when.model_dump(exclude_none=True)})


class TimeRuleList(BaseModel):
    """All rules that a VO adds: others of it are removed."""

    model_config = ConfigDict(extra="forbid")
    vo: Word
    rules: Annotated[list[TimeRuleRecord], Field(max_length=MOST_RULES)]


def add_timeouts(web: FastAPI, database: Database, parameters: Parameters) -> None:
    """Add the routes under /api/v1/timeout."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/timeout", tags=["time-out rules"])
    routes = TimeoutRoutes(database, parameters)
    router.get("/list")(routes.list_all)
    router.post("/load")(routes.load)
    add_routes(web, router)


class TimeoutRoutes:
    """One method for each path."""

    def __init__(self, database: Database, parameters: Parameters) -> None:
        self._database, self._parameters = database, parameters

    async def list_all(self, caller: Anyone) -> Response:
        """Tell every rule in force, in its order: the first whose limit has passed decides.

        What a VO added is told to its members alone.
        """
        async with self._database.read() as connection:
            rules = await rules_in_force(connection)
        limits = self._limits(rules)
        return Envelope([_told(rule, limits) for rule in rules if _may_read(caller, rule)])

    async def load(self, caller: Operator, request: TimeRuleList) -> Response:
        """Put these in the place of all that the VO added, or refuse them with every problem; then those stay."""
        added = [one.rule(request.vo) for one in request.rules]
        async with self._database.begin(reason=f"time-out rules of {request.vo} loaded by {caller.name}") as work:
            await store.lock_rules(work.connection)
            others = [one for one in await rules_in_force(work.connection) if one.when.vo != request.vo]
            problems = problems_of(added, others, self._limits(others))
            if problems:
                return refused(BAD_REQUEST, problems=problems)
            await store.put_rules_of(work.connection, request.vo, added)
            await SQL.run(
                work.connection,
                "record_audit",
                caller=caller.name,
                roles=sorted(caller.roles),
                verb="timeout load",
                target=f"time-out rules of {request.vo}",
                outcome="accepted",
                details={"rules": [{"name": one.name, **kept(one)} for one in added]},
            )
        return Envelope({"n_rules": len(added)}, f"{len(added)} time-out rules of {request.vo}")

    def _limits(self, rules: Any) -> TimeLimits:
        return limits_of(self._parameters, rules, self._parameters.names_of(HEARTBEAT_TIMEOUT))


def _may_read(caller: Caller, rule: TimeRule) -> bool:
    return rule.when.vo is None or access.MEMBERS.allows(caller, Whose(vo=rule.when.vo))


def _told(rule: TimeRule, limits: TimeLimits) -> dict[str, Any]:
    """A rule for people: its limit now, and the parameter that sets it."""
    limit, parameter = _limit(rule, limits)
    return {
        "name": rule.name,
        "vo": rule.when.vo,
        "states": list(rule.states),
        "since": rule.since.value,
        "limit": limit,
        "parameter": parameter,
        "condition": rule.when.text,
        "when": asked_by(rule.when),
        "action": rule.action,
        "next_state": rule.next_state,
        "error_code": rule.error_code,
        "source": rule.source,
    }


def _limit(rule: TimeRule, limits: TimeLimits) -> tuple[str, str]:
    """The limit as it is, and its parameter; "" for a rule that has none."""
    if rule.limit in (Varies.HIGH_DAYS, Varies.LOW_DAYS):
        scale = limits.transferring_scale
        told = f"{rule.limit} days" + (f" x {scale:g}" if scale != 1 else "")
        return told if scale > 0 else "off", TRANSFERRING_SCALE.name
    if rule.limit in (Varies.HEARTBEAT, Varies.OWN_HEARTBEAT):
        usual = [] if rule.default_h is None else [f"{rule.default_h:g} h"]
        own = [f"{name} {hours:g} h" for name, hours in sorted(limits.heartbeat_h.items())]
        return ", ".join([*usual, *own]) or "off", HEARTBEAT_TIMEOUT.names[-1]
    if rule.takes_group:
        return _limit_of_analysis(rule, limits), ANALYSIS_TIMEOUT.name
    found = limits.of(rule, WatchedQueue(), analysis=False)
    told = "off" if found is None else f"{found.total_seconds() / 3600:g} h"
    return told, rule.limit.name if isinstance(rule.limit, Parameter) else ""


def _limit_of_analysis(rule: TimeRule, limits: TimeLimits) -> str:
    """The limits of working groups; "12 h, phys 6 h"."""
    if rule.limit is Varies.AT_ONCE:
        return Varies.AT_ONCE.value
    own = [f"{group} {hours:g} h" for group, hours in sorted(limits.analysis_h.items()) if group]
    usual = limits.analysis_h.get("", ANALYSIS_TIMEOUT.default)
    return ", ".join([f"{usual:g} h" if usual > 0 else "off", *own])
