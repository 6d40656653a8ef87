"""The letters of the VO `example`: its owners are told of what went wrong alone."""

from __future__ import annotations

from services.task_definition.tasks.notifying.letters import PlainLetters
from services.task_definition.tasks.notifying.plugin import Letter, Occasion

_TOLD = frozenset({"failed", "broken", "exhausted", "waits"})


class ExampleLetters(PlainLetters):
    """Plain letters about four causes."""

    name = "example"

    def letter(self, about: Occasion) -> Letter | None:
        """Say nothing of tasks that end as their owner wants it."""
        return super().letter(about) if about.cause in _TOLD else None
