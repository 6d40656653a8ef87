"""A state graph as data: what each state means, who may make each transition and what triggers it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


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
    """One arrow of a graph. ``source`` is None where a row is inserted in this state."""

    source: str | None
    target: str
    trigger: str
    owner: Owner


@dataclass(frozen=True)
class Graph:
    """All states of one kind of row, with their meaning, and all arrows between them."""

    entity: str
    meanings: dict[str, str]
    final: frozenset[str]
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

    def sources(self, target: str, owner: Owner) -> list[str]:
        """The states from which ``owner`` may move a row to ``target``: the allowed set of a compare-and-set.

        Raises IllegalTransition where the owner has no such arrow, so that a wrong store fails at import or first use.
        """
        found = {t.source for t in self.transitions if t.target == target and t.owner == owner and t.source}
        if not found:
            raise IllegalTransition(f"{owner} may never move a {self.entity} to {target!r}")
        return sorted(found)

    def check(self, source: str, target: str, owner: Owner) -> None:
        """Raise IllegalTransition unless ``owner`` may move ``source`` to ``target``."""
        if source not in self.sources(target, owner):
            raise IllegalTransition(f"{owner} may not move a {self.entity} from {source!r} to {target!r}")

    def mermaid(self) -> str:
        """The graph as a Mermaid state diagram; parallel arrows are drawn once."""
        lines = ["stateDiagram-v2"]
        drawn: set[tuple[str | None, str]] = set()
        for t in self.transitions:
            if (t.source, t.target) in drawn:
                continue
            drawn.add((t.source, t.target))
            lines.append(f"    {t.source or '[*]'} --> {t.target}")
        lines += [f"    {state} --> [*]" for state in sorted(self.final)]
        return "\n".join(lines)


def arrows(sources: Iterable[str | None], targets: Iterable[str], trigger: str, owner: Owner) -> list[Transition]:
    """Every source to every target (a state never to itself) with one trigger and owner."""
    return [Transition(s, t, trigger, owner) for s in sources for t in targets if s != t]
