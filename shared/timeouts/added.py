"""Rules that VOs added to those of the field.

Each is for jobs of its VO alone, and is asked before those.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

import asyncpg

from shared.db.queries import Queries
from shared.timeouts.built_in import RULES
from shared.timeouts.rule import Condition, Since, TimeRule

log = logging.getLogger(__name__)
SQL = Queries.beside(__file__)

#: what is kept of a rule, and what it may do
KEPT = frozenset({"states", "since", "limit_h", "next_state", "error_code", "source", "when"})
NEXT_STATES = ("closed", "failed")


@dataclass(frozen=True)
class AddedRules:
    """The rules of VOs in their order, and the VOs whose rules this version cannot read."""

    rules: tuple[TimeRule, ...] = ()
    skipped_vos: tuple[str, ...] = ()

    @property
    def in_force(self) -> tuple[TimeRule, ...]:
        """All rules, in the order in which they are asked."""
        return (*self.rules, *RULES)


async def rules_in_force(connection: asyncpg.Connection) -> tuple[TimeRule, ...]:
    """Read all rules, in the order in which they are asked."""
    return (await added_rules(connection)).in_force


async def added_rules(connection: asyncpg.Connection) -> AddedRules:
    """Read what VOs added; a set with an unreadable rule is skipped whole.

    Why: the first rule that holds decides, so that a part of a set means something else.
    """
    rules: list[TimeRule] = []
    skipped = []
    for vo, rows in groupby(await SQL.rows(connection, "timeout_rules"), key=lambda row: str(row["vo"])):
        try:
            rules += _set_of(vo, [(row["rule"], row["data"]) for row in rows])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            log.error("the time-out rules that %s added are not asked: %r", vo, error)
            skipped.append(vo)
    return AddedRules(tuple(rules), tuple(skipped))


def _set_of(vo: str, stored: Sequence[tuple[str, Mapping[str, Any]]]) -> list[TimeRule]:
    """The rules of one VO; raises where a field or action is unknown, as of a newer version."""
    for name, data in stored:
        if unknown := data.keys() - KEPT:
            raise ValueError(f"rule {name}: unknown {', '.join(sorted(unknown))}")
        if data["next_state"] not in NEXT_STATES:
            raise ValueError(f"rule {name}: unknown state {data['next_state']}")
    return [rule_of(name, vo, data) for name, data in stored]


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
