"""Named attacks: each a function that raises GotThrough where it has success. To add one:

    @attack("bob of cms does what only ada of atlas may")
    def takes_what_is_hers(ground: Ground) -> None:
        bob = ground.people["bob@cms"]
        answer = bob.post("/api/v1/task/kill", {"task_id": ground.ada.task_id})
        ground.refused(bob, answer, "kills her task")

in a module of this folder. `@attack(..., full=True)` is left out of the small run; one that has to wait for something
takes two functions: `begins=...` is called first of all, and what it returns is given to the attack.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.attack.ground import Ground

Begin = Callable[[Ground], Any]


@dataclass(frozen=True)
class Attack:
    """One attack and what it is about, in one line."""

    says: str
    runs: Callable[..., None]
    full: bool
    begins: Begin | None

    @property
    def topic(self) -> str:
        """The module that it is in."""
        return self.runs.__module__.rpartition(".")[2]


_ATTACKS: list[Attack] = []


def attack(says: str, *, full: bool = False, begins: Begin | None = None) -> Callable[..., Callable[..., None]]:
    """Enters a function among the attacks."""

    def enter(function: Callable[..., None]) -> Callable[..., None]:
        _ATTACKS.append(Attack(says, function, full, begins))
        return function

    return enter


def all_attacks() -> list[Attack]:
    """Those of all modules of this folder; what floods comes last, so that others are not slowed by it."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return sorted(_ATTACKS, key=lambda one: (one.topic == "floods", one.topic))
