"""`orrery login`, `orrery logout`: a token for a system at another machine."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from getpass import getpass
from typing import Annotated, Any

import typer

from services.cli import device_flow
from services.cli.addresses import SERVICES, URL_VARIABLE, Addresses, checked_url, find_addresses, is_this_machine
from services.cli.client import Client
from services.cli.commands.options import Json, help_text
from services.cli.failures import Refused, WrongUsage
from services.cli.logins import SystemLogin, read_logins, write_logins
from services.cli.output import print_json, say, warn
from services.cli.tokens import TOKEN_VARIABLE

#: asked where no VO is named; an issuer whose logins are for everybody answers to any name
ANY_VO = "any"
Url = Annotated[
    str | None, typer.Argument(metavar="[URL]", help=f"The one address of the system (default: {URL_VARIABLE}).")
]


def register(app: typer.Typer) -> None:
    does = (
        "Log in at a system of another machine: the issuer of its VO is asked for a token, which you confirm in a "
        "browser, or you paste one. Later commands go there."
    )
    app.command("login", help=help_text(does, "task_definition", "none"))(login)
    app.command("logout", help="Forget the token for a system.\n\nService: none. Role: none.")(logout)


def login(
    url: Url = None,
    vo: Annotated[str, typer.Option("--vo", help="Whose issuer gives the token.")] = ANY_VO,
    paste: Annotated[
        bool, typer.Option("--token", help="Paste a token; one on standard input is read as it is.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Only a token that the system takes is remembered."""
    where = _url_of(url)
    if where.startswith("http://") and not is_this_machine(where):
        warn(f"{where} is not encrypted: whoever is on the way reads your token")
    found = _pasted() if paste else _by_issuer(where, vo)
    known = _client(where, found.token).get("task_definition", "system/get_attributes")["environment"]
    write_logins(read_logins().with_login(where, found))
    told = {
        "url": where,
        "name": known["REMOTE_USER"],
        "roles": known["ROLES"],
        "vo": known["VO"],
        "expires_at": _at(found.expires_at),
        "renews": found.renews,
    }
    if as_json:
        print_json(told)
    else:
        say(_sentence(told))
    _tell_what_wins(where)


def logout(url: Url = None, as_json: Json = False) -> None:
    """The token itself goes on until it expires; `orrery token revoke` ends it."""
    logins = read_logins()
    where = checked_url(url, "URL") if url else os.environ.get(URL_VARIABLE, "").rstrip("/") or logins.last
    if where is None or where not in logins.of:
        raise Refused(f"nobody is logged in at {where}" if where else "nobody is logged in anywhere")
    write_logins(logins.without(where))
    if as_json:
        print_json({"url": where})
    else:
        say(f"logged out at {where}; a token that was copied is good until it expires: `orrery token revoke`")


def _url_of(url: str | None) -> str:
    given = url or os.environ.get(URL_VARIABLE) or read_logins().last
    if not given:
        raise WrongUsage(f"URL: none given: name the system's address, or set {URL_VARIABLE}")
    return checked_url(given, "URL" if url else URL_VARIABLE)


def _pasted() -> SystemLogin:
    text = getpass("token: ") if sys.stdin.isatty() else sys.stdin.read()
    token = text.strip()
    if not token or any(one.isspace() or not one.isprintable() for one in token):
        raise WrongUsage("token: what was given is none: a single word is expected")
    return SystemLogin(token, device_flow.expiry_of(token))


def _by_issuer(url: str, vo: str) -> SystemLogin:
    """A token of the issuer that the system names for the VO."""
    with device_flow.outside() as http:
        answer = http.get(f"{url}/auth/{vo}_auth_config.json")
    try:
        document = answer.json()
    except ValueError:
        document = None
    if not answer.is_success or not isinstance(document, dict) or "client_id" not in document:
        said = document.get("message") if isinstance(document, dict) else f"status {answer.status_code}"
        raise Refused(f"{url} names no issuer to log in at ({said}): paste a token, `orrery login {url} --token`")
    return device_flow.log_in(document, say)


def _client(url: str, token: str) -> Client:
    return Client(Addresses(dict.fromkeys(SERVICES, (url,)), elsewhere=url), token=token)


def _sentence(told: dict[str, Any]) -> str:
    until = f", until {told['expires_at']}" if told["expires_at"] else ""
    again = " (renewed by itself)" if told["renews"] else ""
    return (
        f"logged in at {told['url']} as {told['name']}: roles {told['roles'] or 'none'}; VO {told['vo']}{until}{again}"
    )


def _at(seconds: float) -> str | None:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC" if seconds else None


def _tell_what_wins(url: str) -> None:
    """A variable, or a system that runs here, counts more than the login: who logged in would not expect it."""
    found = find_addresses()
    if found.elsewhere != url:
        where = f"the system of {found.record}" if found.elsewhere is None else f"{found.elsewhere} ({URL_VARIABLE})"
        warn(f"commands here go to {where}; set {URL_VARIABLE}={url} for this one")
    elif os.environ.get(TOKEN_VARIABLE):
        warn(f"{TOKEN_VARIABLE} is set: its token is shown, not that of the login")
