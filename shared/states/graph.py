"""A state graph as data: what each state means, who may make each transition and what triggers it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

#: the states of one kind of row: a Literal type, so that mypy knows each word
State = TypeVar("State", bound=str)


class Owner(StrEnum):
    """The services that may change a status."""

    TASK_DEFINITION = "task_definition"
    TASK_BROKERAGE = "task_brokerage"
    JOB_GENERATION = "job_generation"
    JOB_BROKERAGE = "job_brokerage"
    JOB_DISPATCH = "job_dispatch"
    WATCHDOG = "watchdog"
    JUMBO_WATCHDOG = "jumbo_watchdog"
    SHARE_CORRECTION = "share_correction"


class IllegalTransition(ValueError):
    """A change of state that the published graph does not have."""


@dataclass(frozen=True)
class Transition:
    """One arrow of a graph. ``source`` is None where a row is inserted in this state.

    Its states are checked when the graph is built.
    """

    source: str | None
    target: str
    trigger: str
    owner: Owner


@dataclass(frozen=True)
class Graph(Generic[State]):
    """All states of one kind of row, with their meaning, and all arrows between them."""

    entity: str
    meanings: Mapping[State, str]
    final: frozenset[State]
    transitions: tuple[Transition, ...]

    def __post_init__(self) -> None:
        for transition in self.transitions:
            for state in (transition.source, transition.target):
                if state is not None and state not in self.meanings:
                    raise ValueError(f"{self.entity}: transition names the unknown state {state!r}")

    def edges(self) -> frozenset[tuple[str, str]]:
        """Every (from, to) pair, insertions left out."""
        return frozenset((t.source, t.target) for t in self.transitions if t.source is not None)

    def initial(self) -> frozenset[str]:
        """The states a row may be inserted in."""
        return frozenset(t.target for t in self.transitions if t.source is None)

    def sources(self, target: State, owner: Owner) -> list[State]:
        """The states from which ``owner`` may move a row to ``target``: the allowed set of a compare-and-set.

        Raises IllegalTransition where the owner has no such arrow, so that a wrong store fails at import or first use.
        """
        found = {t.source for t in self.transitions if t.target == target and t.owner == owner and t.source}
        if not found:
            raise IllegalTransition(f"{owner} may never move a {self.entity} to {target!r}")
        return sorted(state for state in self.meanings if state in found)

    def check(self, source: State, target: State, owner: Owner) -> None:
        """Raise IllegalTransition unless ``owner`` may move ``source`` to ``target``."""
        if source not in self.sources(target, owner):
            raise IllegalTransition(f"{owner} may not move a {self.entity} from {source!r} to {target!r}")


def arrows(sources: Iterable[str | None], targets: Iterable[str], trigger: str, owner: Owner) -> list[Transition]:
    """Every source to every target (a state never to itself) with one trigger and owner."""
    return [Transition(s, t, trigger, owner) for s in sources for t in targets if s != t]
