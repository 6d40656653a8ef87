"""Time-out rules that VOs add."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from shared.db.queries import Queries
from shared.timeouts.added import kept
from shared.timeouts.rule import TimeRule

SQL = Queries.beside(__file__)


async def lock_rules(connection: asyncpg.Connection) -> None:
    """Let no other set of rules be put before this transaction ends."""
    await SQL.rows(connection, "lock_timeout_rules")


async def put_rules_of(connection: asyncpg.Connection, vo: str, rules: Sequence[TimeRule]) -> None:
    """Put these in the place of all that the VO added before."""
    await SQL.run(connection, "forget_rules_of_vo", vo=vo)
    names, data = [rule.name for rule in rules], [kept(rule) for rule in rules]
    await SQL.run(connection, "put_rules", vo=vo, rules=names, data=data)
