"""`orrery catalogue import|show|requests`: datasets and files; what catalogues outside are asked."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from services.cli.commands.options import Json, connect, help_text, rows_of
from services.cli.failures import WrongUsage
from services.cli.output import print_facts, print_json, print_table

IMPORT_TIMEOUT_S = 300.0


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Catalogues: import, show, requests.")
    group.command("import", help=help_text("Register datasets from files.", "task_definition", "production"))(
        import_files
    )
    group.command("show", help=help_text("Show datasets.", "task_definition", "user"))(show)
    told = "Show what is wanted of catalogues outside and not done, with why."
    group.command("requests", help=help_text(told, "task_definition", "user"))(requests)
    app.add_typer(group, name="catalogue")


def import_files(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="JSON files, plain or gzipped.")],
    as_json: Json = False,
) -> None:
    """Each file is taken whole or refused whole."""
    client = connect()
    results = []
    for path in files:
        data = client.post("task_definition", "catalogue/import", read_catalogue(path), timeout_s=IMPORT_TIMEOUT_S)
        results.append({"file": str(path), **(data if isinstance(data, dict) else {"imported": data})})
    if as_json:
        print_json(results)
    else:
        names = dict.fromkeys(name for row in results for name in row)
        print_table(results, [(name.replace("_", " "), name) for name in names])


def read_catalogue(path: Path) -> Any:
    """The content of a catalogue file. Raises WrongUsage naming the file."""
    try:
        content = path.read_bytes()
        return json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    except (OSError, EOFError, ValueError) as error:
        raise WrongUsage(f"{path}: cannot be read: {error}") from None


def requests(
    vo: Annotated[str | None, typer.Option("--vo", help="Of this VO only.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most so many.")] = 100,
    as_json: Json = False,
) -> None:
    """The oldest first."""
    rows = rows_of(connect().get("task_definition", "catalogue/requests", vo=vo, limit=limit), "requests")
    if as_json:
        print_json(rows)
    else:
        print_table(rows, [("request", "request_id"), ("task", "task_id"), ("kind", "kind"), ("", "text")])


def show(
    name: Annotated[str | None, typer.Argument(help="A dataset's or container's name, or a pattern with *.")] = None,
    files: Annotated[bool, typer.Option("--files", help="List its files, too.")] = False,
    as_json: Json = False,
) -> None:
    """One dataset in full, or a list."""
    client = connect()
    if name is None or "*" in name:
        rows = rows_of(client.get("task_definition", "catalogue/datasets", name=name), "datasets")
        if as_json:
            print_json(rows)
        else:
            print_table(rows, [(one.replace("n_", "").replace("_", " "), one) for one in _LIST])
        return
    data = client.get("task_definition", "catalogue/dataset", name=name, include_files=files or None)
    if as_json:
        print_json(data)
        return
    nested = {key: value for key, value in data.items() if isinstance(value, list) and value}
    print_facts((key.replace("_", " "), value) for key, value in data.items() if key not in nested)
    for key, value in nested.items():
        rows = rows_of(value)
        typer.echo("")
        print_table(
            rows, [(one.replace("_", " "), one) for one in dict.fromkeys(k for row in rows for k in row)], title=key
        )


_LIST = ("name", "kind", "state", "n_files", "n_bytes", "n_events")
