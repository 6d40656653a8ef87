"""Rules that VOs added to those of the field.

Each is for jobs of its VO alone, and is asked before those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import asyncpg

from shared.db.queries import Queries
from shared.timeouts.built_in import RULES
from shared.timeouts.rule import Condition, Since, TimeRule

SQL = Queries.beside(__file__)


async def rules_in_force(connection: asyncpg.Connection) -> tuple[TimeRule, ...]:
    """Read all rules, in the order in which they are asked."""
    rows = await SQL.rows(connection, "timeout_rules")
    return (*(rule_of(row["rule"], row["vo"], row["data"]) for row in rows), *RULES)


def rule_of(name: str, vo: str, data: Mapping[str, Any]) -> TimeRule:
    """A rule as it is kept."""
    when: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in data["when"].items()}
    return TimeRule(
        name=name,
        states=tuple(data["states"]),
        since=Since(data["since"]),
        limit=float(data["limit_h"]),
        next_state=data["next_state"],
        error_code=data["error_code"],
        source=data["source"],
        when=replace(Condition(vo=vo), **when),
    )


def kept(rule: TimeRule) -> dict[str, Any]:
    """The same, to be kept."""
    return {
        "states": list(rule.states),
        "since": rule.since.value,
        "limit_h": rule.default_h,
        "next_state": rule.next_state,
        "error_code": rule.error_code,
        "source": rule.source,
        "when": asked_by(rule.when),
    }


def asked_by(when: Condition) -> dict[str, Any]:
    """What a condition asks besides the VO, by name."""
    unasked = asdict(Condition())
    return {name: value for name, value in asdict(when).items() if name != "vo" and value != unasked[name]}
