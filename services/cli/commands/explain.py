"""`orrery explain task|job|queue`: why it is as it is, from the stored decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from services.cli.commands.options import Json, connect, help_text, rows_of
from services.cli.failures import Refused, WrongUsage
from services.cli.identifiers import read_ids
from services.cli.output import print_facts, print_json, print_table, say, say_lines

KINDS = ("task", "job", "queue")


def register(app: typer.Typer) -> None:
    app.command(
        "explain",
        help=help_text(
            "Explain where a task or job is and why: the last decisions, what excluded each queue, the next try. Or "
            "what a queue gets: who is placed, which checks left it out, why its pilots left, its cordon and limits.",
            "task_definition",
            "user",
        ),
    )(explain)


def explain(
    kind: Annotated[str, typer.Argument(metavar="task|job|queue")],
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids (- reads them), or names of queues.")],
    everything: Annotated[
        bool, typer.Option("--all", help="Every queue of each decision shown, with the terms of weights.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Text for people; the same as JSON. As text, what is not there is named after the others."""
    if kind not in KINDS:
        raise WrongUsage(f"kind: value {kind!r}: allowed are {', '.join(KINDS)}")
    client = connect()
    found, refused = [], []
    for one in ids if kind == "queue" else read_ids(ids):
        query: dict[str, Any] = {"queue": one} if kind == "queue" else {f"{kind}_id": one}
        if everything and kind != "queue":
            query["all"] = "true"
        try:
            found.append(client.get("task_definition", f"explain/{kind}", **query))
        except Refused as refusal:
            refused.append(refusal)
    if refused and (as_json or not found):
        raise Refused("; ".join(one.message for one in refused))
    if as_json:
        print_json(found[0] if len(found) == 1 else found)
        return
    for explanation in found:
        show(explanation)
    if refused:
        raise Refused("; ".join(one.message for one in refused))


def show(explanation: Any) -> None:
    """Whatever the service says, in its own words: its text if it has one, else facts, then tables."""
    if not isinstance(explanation, Mapping):
        say(explanation)
        return
    if isinstance(explanation.get("text"), str):
        say_lines(explanation["text"])
        return
    tables = {key: value for key, value in explanation.items() if _is_table(value)}
    print_facts((key.replace("_", " "), value) for key, value in explanation.items() if key not in tables)
    for key, value in tables.items():
        rows = rows_of(value)
        say()
        print_table(
            rows,
            [(name.replace("_", " "), name) for name in dict.fromkeys(n for row in rows for n in row)],
            title=key.replace("_", " "),
        )


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)
