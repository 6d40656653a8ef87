"""A state graph as people read it: a diagram of the usual way, and a table of every verb.

A verb is a trigger with its owner: "kill" by task_definition. A verb that leads from many states would be many arrows
without any information; the table says it in one line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shared.states.graph import Graph

#: a verb with more arrows than this stands in the table only; one that ends the row may have twice as many
MOST_ARROWS = 3


@dataclass(frozen=True)
class Verb:
    """The arrows of one trigger and owner that lead to the same states.

    `sources` holds None for a new row.
    """

    trigger: str
    owner: str
    sources: tuple[str | None, ...]
    targets: tuple[str, ...]

    def arrows(self) -> list[tuple[str | None, str]]:
        """Every source to every target, a state never to itself."""
        return [(source, target) for source in self.sources for target in self.targets if source != target]


def verbs(graph: Graph) -> list[Verb]:
    """The verbs in the order of the graph."""
    targets: dict[tuple[str, str, str | None], list[str]] = {}
    for one in graph.transitions:
        targets.setdefault((one.trigger, str(one.owner), one.source), []).append(one.target)
    sources: dict[tuple[str, str, tuple[str, ...]], list[str | None]] = {}
    for (trigger, owner, source), found in targets.items():
        sources.setdefault((trigger, owner, tuple(found)), []).append(source)
    return [Verb(trigger, owner, tuple(froms), tos) for (trigger, owner, tos), froms in sources.items()]


def _is_drawn(verb: Verb, graph: Graph) -> bool:
    limit = 2 * MOST_ARROWS if graph.final.issuperset(verb.targets) else MOST_ARROWS
    return len(verb.arrows()) <= limit


def drawn(graph: Graph) -> str:
    """A Mermaid state diagram of the verbs with few arrows, each arrow labelled with its verbs.

    A state that only the other verbs reach stands in it without an arrow.
    """
    labels: dict[tuple[str | None, str], list[str]] = {}
    for verb in verbs(graph):
        if _is_drawn(verb, graph):
            for arrow in verb.arrows():
                labels.setdefault(arrow, []).append(verb.trigger)
    shown = {state for arrow in labels for state in arrow}
    lines = ["stateDiagram-v2", *(f"    {state}" for state in graph.meanings if state not in shown)]
    lines += [f"    {source or '[*]'} --> {target}: {_label(texts)}" for (source, target), texts in labels.items()]
    lines += [f"    {state} --> [*]" for state in sorted(graph.final)]
    return "\n".join(lines)


def _label(texts: Iterable[str]) -> str:
    """Mermaid ends a label at a semicolon or a colon."""
    return " / ".join(texts).replace(";", ",").replace(":", ",")


def verb_table(graph: Graph) -> str:
    """A Markdown table: verb, from, to, by."""
    lines = ["| verb | from | to | by |", "|---|---|---|---|"]
    for verb in verbs(graph):
        sources = ", ".join(source or "(new)" for source in verb.sources)
        lines.append(f"| {verb.trigger} | {sources} | {', '.join(verb.targets)} | {verb.owner} |")
    return "\n".join(lines)
