"""`orrery secrets`: what is kept for payloads, what others tried, and the keys that encrypt it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from services.cli.commands.options import Json, connect, help_text, rows_of
from services.cli.failures import WrongUsage
from services.cli.output import print_json, print_table, say, told
from shared.auth.keyring import VARIABLE, add_key

COLUMNS = (("key", "key"), ("VO", "vo"), ("for pilots", "for_pilots"), ("changed", "changed_at"))
NOTE_COLUMNS = (("at", "at"), ("by", "caller"), ("what", "what"), ("VO", "vo"), ("task", "task"))
ANY = "user, pilot, production or operator"
Vo = Annotated[str | None, typer.Option("--vo", help="For the tasks of this VO; needed if the token is of several.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="Under which name payloads find the value.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Secrets for payloads (useSecrets): list, set, forget; their keys.")
    shows = "List your keys without their values, and who else asked for them or changed a task that used them."
    group.command("list", help=help_text(shows, "job_dispatch", ANY))(list_secrets)
    group.command("set", help=help_text("Keep a value, encrypted, for your tasks.", "job_dispatch", ANY))(set_secret)
    group.command("forget", help=help_text("Forget a key and its value.", "job_dispatch", ANY))(forget)
    adds = f"Add a new key to the file that encrypts secrets ({VARIABLE}); the file is made if there is none."
    group.command("add-key", help=help_text(adds, "none", "none, but the file must be writable"))(add_key_to)
    does = "Encrypt all secrets with the newest key of the file: first add-key, on every machine of a dispatcher."
    group.command("rotate-key", help=help_text(does, "job_dispatch", "operator"))(rotate_key)
    app.add_typer(group, name="secrets")


def list_secrets(as_json: Json = False) -> None:
    """Two tables."""
    data = connect().get("job_dispatch", "creds/list_user_secrets")
    if as_json:
        print_json(data)
        return
    print_table(rows_of(data, "secrets"), COLUMNS)
    notes = [_shown(one) for one in rows_of(data, "notes")]
    if notes:
        print_table(notes, NOTE_COLUMNS, title="what others did")


def _shown(note: dict[str, Any]) -> dict[str, Any]:
    task = note.get("task_id") or note.get("task_name")
    what = "asked for them (refused)" if note.get("what") == "secrets.asked" else "changed a task: it gets them no more"
    return {**note, "task": task, "what": what}


def set_secret(
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="- reads it from standard input.")],
    vo: Vo = None,
    for_pilots: Annotated[
        bool, typer.Option("--for-pilots", help="Also for pilots of queues that name you (PILOT_SECRETS).")
    ] = False,
    as_json: Json = False,
) -> None:
    """One value."""
    text = sys.stdin.read().rstrip("\n") if value == "-" else value
    body = {"key": key, "value": text, "vo": vo, "for_pilots": for_pilots}
    told(connect().envelope("POST", "job_dispatch", "creds/set_user_secrets", json=body), as_json)


def forget(key: Key, vo: Vo = None, as_json: Json = False) -> None:
    """One key."""
    body = {"key": key, "value": None, "vo": vo}
    told(connect().envelope("POST", "job_dispatch", "creds/set_user_secrets", json=body), as_json)


def add_key_to(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help=f"Default: {VARIABLE}.")] = None,
) -> None:
    """The id of the new key."""
    named = os.environ.get(VARIABLE)
    path = file or (Path(named) if named else None)
    if path is None:
        raise WrongUsage(f"add-key: name the file, or set {VARIABLE}")
    try:
        say(f"{path}: the key {add_key(path)} encrypts from now on; then: orrery secrets rotate-key")
    except (OSError, ValueError) as error:
        raise WrongUsage(f"{path}: {error}") from None


def rotate_key(as_json: Json = False) -> None:
    """How many were encrypted anew."""
    told(connect().envelope("POST", "job_dispatch", "creds/rotate_key", json={}), as_json)
