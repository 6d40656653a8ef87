"""`orrery catalogue ...`: datasets, whose they are, and what catalogues outside are asked."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from services.cli.commands.options import Json, connect, help_text, rows_of
from services.cli.failures import WrongUsage
from services.cli.output import print_facts, print_json, print_rows, print_table, say, told

IMPORT_TIMEOUT_S = 300.0


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Catalogues and stores: import, show, scope, requests, used-up, ...")
    group.command("import", help=help_text("Register datasets from files.", "task_definition", "production"))(
        import_files
    )
    group.command("show", help=help_text("Show datasets.", "task_definition", "user"))(show)
    does = "Show what is wanted of catalogues outside and not done, with why."
    group.command("requests", help=help_text(does, "task_definition", "user"))(requests)
    shows = "Show files in object stores that a task's event ranges need no more, until their deletion is reported."
    group.command("used-up", help=help_text(shows, "job_generation", "user"))(used_up)
    notes = "Note that files which used-up shows were deleted."
    group.command("deleted", help=help_text(notes, "job_generation", "production"))(deleted)
    does = "Show what others were about to write in scopes of yours, or of VOs that you produce for."
    group.command("refused", help=help_text(does, "task_definition", "user"))(show_refused)
    does = "Open datasets and containers for tasks and people of other VOs."
    group.command("readable", help=help_text(does, "task_definition", "production"))(readable)
    scope = typer.Typer(no_args_is_help=True, help="To whom scopes of datasets belong: list, set.")
    scope.command("list", help=help_text("Show to whom scopes belong.", "task_definition", "user"))(list_scopes)
    scope.command("set", help=help_text("Give a scope to a VO or person.", "task_definition", "operator"))(set_scope)
    group.add_typer(scope, name="scope")
    app.add_typer(group, name="catalogue")


def import_files(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="JSON files, plain or gzipped.")],
    vo: Annotated[str | None, typer.Option("--vo", help="To which new scopes belong, if the file says none.")] = None,
    as_json: Json = False,
) -> None:
    """Each file is taken whole or refused whole."""
    client = connect()
    results = []
    for path in files:
        content = read_catalogue(path)
        if vo is not None and isinstance(content, dict):
            content = {"vo": vo, **content}
        data = client.post("task_definition", "catalogue/import", content, timeout_s=IMPORT_TIMEOUT_S)
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
    print_rows(rows, [("request", "request_id"), ("task", "task_id"), ("kind", "kind"), ("", "text")], as_json=as_json)


def used_up(
    task_id: Annotated[int, typer.Argument(metavar="TASK", help="A task of the event service.")],
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="At most so many.")] = 1000,
    as_json: Json = False,
) -> None:
    """In order of the jobs that wrote them."""
    rows = rows_of(connect().get("job_generation", "used_up_files/list", task_id=task_id, limit=limit), "files")
    _print_rows(rows, ("name", "job_id", "obj_store_id", "path_convention", "size_bytes", "n_ranges"), as_json)


def deleted(
    task_id: Annotated[int, typer.Argument(metavar="TASK", help="The task that had them written.")],
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Names, as used-up shows them.")],
    as_json: Json = False,
) -> None:
    """Report the deletion; all of the files must be used up, and it may be said again."""
    body = {"task_id": task_id, "files": files}
    told(connect().envelope("POST", "job_generation", "used_up_files/deleted", json=body), as_json)


def list_scopes(
    scope: Annotated[str | None, typer.Argument(help="A scope, or a pattern with *.")] = None,
    as_json: Json = False,
) -> None:
    """Those of the caller's VOs, and of none."""
    rows = rows_of(connect().get("task_definition", "catalogue/scopes", scope=scope), "scopes")
    _print_rows(rows, ("scope", "vo", "owner", "claimed_by", "claimed_at"), as_json)


def set_scope(
    scope: Annotated[str, typer.Argument(help="As data23_13p6TeV or user.ada.")],
    vo: Annotated[str, typer.Option("--vo", help="To which it belongs; '' for none: every VO may read it.")],
    owner: Annotated[str, typer.Option("--owner", help="The person who may write in it besides production.")] = "",
    as_json: Json = False,
) -> None:
    """Whoever had it before."""
    data = connect().post("task_definition", "catalogue/scope", {"scope": scope, "vo": vo, "owner": owner})
    if as_json:
        print_json(data)
    else:
        print_facts(data.items())


def show_refused(as_json: Json = False) -> None:
    """The last first."""
    rows = rows_of(connect().get("task_definition", "catalogue/refused"), "refused")
    _print_rows(rows, ("last_at", "scope", "dataset", "verb", "caller", "cause", "n_times"), as_json)


def readable(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Datasets and containers.")],
    close: Annotated[bool, typer.Option("--close", help="Their own VO alone reads them from now on.")] = False,
    as_json: Json = False,
) -> None:
    """A container shows what in it may be read: its datasets are named, too."""
    data = connect().post("task_definition", "catalogue/readable", {"names": names, "by_all": not close})
    if as_json:
        print_json(data)
    else:
        say(f"{len(data['names'])} {'closed to' if close else 'opened for'} other VOs")


def _print_rows(rows: list[dict[str, Any]], columns: tuple[str, ...], as_json: bool) -> None:
    print_rows(rows, [(one.replace("n_", "").replace("_", " "), one) for one in columns], as_json=as_json)


def show(
    name: Annotated[str | None, typer.Argument(help="A dataset's or container's name, or a pattern with *.")] = None,
    files: Annotated[bool, typer.Option("--files", help="List its files, too.")] = False,
    as_json: Json = False,
) -> None:
    """One dataset in full, or a list."""
    client = connect()
    if name is None or "*" in name:
        rows = rows_of(client.get("task_definition", "catalogue/datasets", name=name), "datasets")
        _print_rows(rows, _LIST, as_json)
        return
    data = client.get("task_definition", "catalogue/dataset", name=name, include_files=files or None)
    if as_json:
        print_json(data)
        return
    nested = {key: value for key, value in data.items() if isinstance(value, list) and value}
    print_facts((key.replace("_", " "), value) for key, value in data.items() if key not in nested)
    for key, value in nested.items():
        rows = rows_of(value)
        say()
        print_table(
            rows, [(one.replace("_", " "), one) for one in dict.fromkeys(k for row in rows for k in row)], title=key
        )


_LIST = ("name", "vo", "kind", "state", "n_files", "n_bytes", "n_events")
