"""`orrery console`, `orrery open`: the pages in a browser, and links to them."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import quote

import typer

from services.cli.addresses import URL_VARIABLE, Addresses, find_addresses, is_this_machine
from services.cli.client import Client
from services.cli.commands.options import Json, help_text
from services.cli.failures import Unreachable, WrongUsage
from services.cli.output import told
from services.cli.tokens import TOKEN_VARIABLE, caller_name, issue, token_for

ROOT = "/console/"
#: as long as somebody works; a token of a login has its own time
LIFETIME_S = 12 * 3600.0
#: what a link can lead to
KINDS = {"task": "tasks", "job": "jobs", "queue": "queues", "share": "shares"}


def register(app: typer.Typer) -> None:
    does = "Print a link that signs a browser in to the console as you, once, within 2 minutes; and open it."
    app.command("console", help=help_text(does, "console", "any"))(console)
    does = "Print the link to a task, a job, a queue or a share, which others can open too; and open it."
    app.command("open", help=help_text(does, "none", "none"))(open_page)


def console(
    path: Annotated[str, typer.Argument(metavar="[PATH]", help="Where to go on: tasks/7, queues/CERN.")] = "",
    name: Annotated[str | None, typer.Option("--name", help="As somebody else, with this machine's key.")] = None,
    roles: Annotated[
        list[str] | None, typer.Option("--role", "-r", help="With this machine's key: user, production, operator.")
    ] = None,
    groups: Annotated[list[str] | None, typer.Option("--group", "-g", help="With this machine's key.")] = None,
    print_only: Annotated[bool, typer.Option("--print", help="Open nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Whoever has the link is you until it was used or is too old."""
    addresses = find_addresses()
    url, signed_in_as = sign_in_link(addresses, _token(addresses, name, roles or [], groups or []), path)
    told({"message": url, "data": {"url": url, "name": signed_in_as}}, as_json)
    if not (print_only or as_json):
        open_in_browser(url)


def sign_in_link(addresses: Addresses, token: str, path: str) -> tuple[str, str]:
    """Make a link that signs a browser in once and leads to a path; whose name that is.

    It is the name of the token.
    """
    made = Client(addresses, token=token).post("console", f"{ROOT}sign-in/links")
    url = f"{_seen_address(addresses, made.get('address'))}{made['path']}?next={quote(_path(path), safe='')}"
    return url, made["name"]


def open_page(
    kind: Annotated[str, typer.Argument(metavar="task|job|queue|share")],
    which: Annotated[str, typer.Argument(metavar="ID", help="An id, or a name.")],
    print_only: Annotated[bool, typer.Option("--print", help="Open nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Whoever opens it signs in as themselves."""
    if kind not in KINDS:
        raise WrongUsage(f"kind: value {kind!r}: allowed are {', '.join(KINDS)}")
    url = f"{_address(find_addresses())}{ROOT}{KINDS[kind]}/{quote(which, safe='')}"
    told({"message": url, "data": {"url": url}}, as_json)
    if not (print_only or as_json):
        open_in_browser(url)


def _token(addresses: Addresses, name: str | None, roles: Sequence[str], groups: Sequence[str]) -> str:
    """The caller's token; one of this machine's key lives as long as a working day."""
    is_given = bool(os.environ.get(TOKEN_VARIABLE)) or (addresses.elsewhere and addresses.token_key_file is None)
    if is_given and not (name or roles or groups):
        return token_for(addresses)
    return issue(addresses, name or caller_name(), roles or ["operator"], groups, lifetime_s=LIFETIME_S)


def _address(addresses: Addresses) -> str:
    """The one address, which browsers see. Raises Unreachable."""
    url = addresses.one_address or next(iter(addresses.urls.get("console", ())), None)
    if url is None:
        raise Unreachable(f"console: address unknown: `make up` starts the system; for another set {URL_VARIABLE}")
    return url


def _seen_address(addresses: Addresses, told: str | None) -> str:
    """Where the browser of this person reaches the console that told its address.

    One of a loopback is an address of the console's own machine: whoever asked it at another reaches it there.
    """
    if told and not (addresses.elsewhere and is_this_machine(told)):
        return told
    return _address(addresses)


def _path(given: str) -> str:
    """A path of the console. Example: tasks/7 is /console/tasks/7."""
    return given if given.startswith(ROOT) else f"{ROOT}{given.lstrip('/')}"


def open_in_browser(url: str) -> None:
    """Open it where there is a browser with windows; one inside this terminal would be in the way."""
    has_windows = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.stdout.isatty() and has_windows:
        webbrowser.open(url)
