"""`orrery events`, `orrery states`: the contracts between the services, printed from the code itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.commands.options import Json
from services.cli.failures import WrongUsage
from services.cli.output import print_json, print_table, say_lines

if TYPE_CHECKING:
    from shared.states import Graph

Mermaid = Annotated[bool, typer.Option("--mermaid", help="Print a Mermaid diagram.")]


def register(app: typer.Typer) -> None:
    app.command("events", help="Show who states which event and who works on it.\n\nService: none. Role: none.")(events)
    app.command(
        "states", help="Show the states of a kind of row, their meanings and transitions.\n\nService: none. Role: none."
    )(states)


def events(mermaid: Mermaid = False, as_json: Json = False) -> None:
    """One line for each kind of event: producers, consumers (once, by queue) and listeners (each replica)."""
    from services.cli.drawings import service_map  # what other verbs need not wait for
    from shared.events.catalogue import contract_rows

    if mermaid:
        say_lines(service_map())
        return
    rows = contract_rows()
    if as_json:
        print_json(rows)
        return
    columns = [(name, lambda row, name=name: ", ".join(row[name])) for name in ("producers", "consumers", "listeners")]
    print_table(rows, [("event", "event"), *columns, ("meaning", "meaning")])


def states(
    entity: Annotated[
        str | None, typer.Argument(help="task, dataset, file, event_range or job; all if left out.")
    ] = None,
    mermaid: Mermaid = False,
    as_json: Json = False,
) -> None:
    """States with their meaning, then transitions with trigger and owner."""
    from services.cli.state_drawings import drawn
    from shared.states import GRAPHS  # what other verbs need not wait for

    known = {graph.entity: graph for graph in GRAPHS}
    if entity is not None and entity not in known:
        raise WrongUsage(f"entity: value {entity!r}: allowed are {', '.join(known)}")
    chosen = [graph for graph in GRAPHS if entity in (None, graph.entity)]
    if as_json:
        print_json(
            [
                {
                    "entity": graph.entity,
                    "states": graph.meanings,
                    "final": sorted(graph.final),
                    "transitions": [
                        {"from": t.source, "to": t.target, "trigger": t.trigger, "owner": str(t.owner)}
                        for t in graph.transitions
                    ],
                }
                for graph in chosen
            ]
        )
        return
    for graph in chosen:
        if mermaid:
            say_lines(drawn(graph))
        else:
            _show(graph)


def _show(graph: Graph) -> None:
    """Two tables: states with their meanings, transitions with trigger and owner."""
    meanings = [
        {"state": state, "final": "final" if state in graph.final else "", "meaning": meaning}
        for state, meaning in graph.meanings.items()
    ]
    columns = (("state", "state"), ("", "final"), ("meaning", "meaning"))
    print_table(meanings, columns, title=f"{graph.entity}: states")
    arrows = [
        {"from": t.source or "(new)", "to": t.target, "trigger": t.trigger, "owner": str(t.owner)}
        for t in graph.transitions
    ]
    headings = (("from", "from"), ("to", "to"), ("trigger", "trigger"), ("owner", "owner"))
    print_table(arrows, headings, title=f"\n{graph.entity}: transitions")
