"""The state of a task in words: what it means, and what it waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.states.task import MEANINGS

STATES: Mapping[str, str] = {str(state): means for state, means in MEANINGS.items()}
#: states in which nothing happens any more by itself
ENDED = frozenset({"done", "finished", "failed", "broken", "aborted", "exhausted"})


def meaning_of(task: Mapping[str, Any], explanation: Mapping[str, Any] | None) -> str:
    """What its state means, in the words of `orrery explain`; without them in those of the specification."""
    told = (explanation or {}).get("meaning")
    return str(told or STATES.get(str(task.get("status")), ""))


def waits_of(explanation: Mapping[str, Any] | None) -> Sequence[str]:
    """What each part of it waits for."""
    return [str(one["text"]) for one in (explanation or {}).get("waits") or () if one.get("text")]


def goes_on(status: Any) -> bool:
    """Whether a page about it is worth asking again."""
    return status not in ENDED
