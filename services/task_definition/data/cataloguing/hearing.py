"""What a catalogue outside says by itself: rules of which it speaks are looked at at once.

Rucio's daemon hermes sends it into RabbitMQ. Without it a rule is looked at from time to time only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from services.task_definition.data.wishing import Wishes
from shared.catalogue.messages import rule_of_message
from shared.db.database import Database


class Hearing:
    """Takes bodies of messages as they arrive."""

    def __init__(self, database: Database, wishes: Wishes) -> None:
        self._database, self._wishes = database, wishes

    async def hear(self, bodies: Sequence[bytes]) -> frozenset[int]:
        """Look at the rules that are named sooner; the places of bodies that are no messages of a catalogue."""
        read = [_message(body) for body in bodies]
        rules = sorted({rule for one in read if one is not None and (rule := rule_of_message(one)) is not None})
        if rules:
            async with self._database.begin(reason="a catalogue told of its rules") as work:
                await self._wishes.look_sooner(work, rules, self._wishes.vos)
        return frozenset(place for place, one in enumerate(read) if one is None)


def _message(body: bytes) -> Mapping[str, Any] | None:
    """The object with an event type; None for anything else."""
    try:
        found = orjson.loads(body)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("event_type"), str) else None
