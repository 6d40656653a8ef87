"""`orrery status`: who is away, what is stuck, what is slow, what is large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import typer
from rich.text import Text

from services.cli.client import Client
from services.cli.commands.options import Json, connect, help_text
from services.cli.output import age, console, print_facts, print_json, print_table, say
from shared.model.visible_text import visible

READY_TIMEOUT_S, CONDITION_TIMEOUT_S = 5.0, 60.0
FINDINGS = (("what", "what"), ("how many", "n"), ("since", lambda row: age(row["since"])), ("look at", "see"))
QUEUES_OF_BUS = (
    ("message queue of", "consumer"),
    ("waiting", "n_waiting"),
    ("not empty since", lambda row: age(row["waiting_since"])),
    ("consumers", "n_consumers"),
)
DEFERRED = (
    ("tried again by", "consumer"),
    ("messages", "n_messages"),
    ("tries", "most_attempts"),
    ("since", lambda row: age(row["since"])),
    ("said last", "reason"),
)
SLOW = (
    ("session of", "process"),
    ("open for", lambda row: f"{row['open_s']:g} s"),
    ("state", "state"),
    ("waits for", "waits_for"),
)
TABLES = (("table", "name"), ("size", lambda row: size(row["n_bytes"])), ("rows", lambda row: f"{row['n_rows']:,}"))


def register(app: typer.Typer) -> None:
    does = (
        "Show the condition of the system: services, what is stuck, slow and large. Exit code 1 if something is not as "
        "usual."
    )
    app.command("status", help=help_text(does, "watchdog", "operator"))(status)


def status(as_json: Json = False) -> None:
    """Copies of services are asked themselves where their addresses are known."""
    client = connect()
    copies = [] if client.addresses.elsewhere else copies_of(client)
    found = client.call("GET", "watchdog", "condition", timeout_s=CONDITION_TIMEOUT_S)
    if as_json:
        print_json({**found, "copies": copies})
    else:
        show(found, copies)
    if found["findings"] or not all(one["ready"] for one in copies):
        raise typer.Exit(1)


def copies_of(client: Client) -> list[dict[str, Any]]:
    """Each copy whose address is known, and what is missing to it (`/readyz`)."""
    rows = []
    with httpx.Client(timeout=READY_TIMEOUT_S, trust_env=False) as http:
        for service, urls in client.addresses.urls.items():
            for url in urls:
                try:
                    answer = http.get(f"{url}/readyz")
                    problems = [] if answer.is_success else answer.json().get("problems", [])
                    rows.append({"service": service, "url": url, "ready": answer.is_success, "problems": problems})
                except (httpx.HTTPError, ValueError) as error:
                    rows.append({"service": service, "url": url, "ready": False, "problems": [str(error)]})
    return rows


def show(found: Mapping[str, Any], copies: Sequence[Mapping[str, Any]]) -> None:
    """What is wrong first; then what there is."""
    unready = [one for one in copies if not one["ready"]]
    for one in unready:
        told = "; ".join(map(str, one["problems"])) or "not ready"
        console().print(Text.assemble(("not ready", "red"), " ", visible(f"{one['service']} at {one['url']}: {told}")))
    if found["findings"]:
        print_table(found["findings"], FINDINGS)
    elif not unready:
        console().print(Text("all is as usual", style="bold green"))
    say()
    runs = [_with_copies(one) for one in found["services"] if one["runs"]]
    messages, database = found["messages"], found["database"]
    print_facts([
        ("services", f"{len(runs)} run: {', '.join(runs)}" if runs else "none runs"),
        ("copies", f"{len(copies) - len(unready)} of {len(copies)} are ready" if copies else None),
        ("tasks", _counted(found["tasks"], "n_tasks")),
        ("jobs", _counted(found["jobs"], "n_jobs")),
        ("messages", ", ".join(
            f"{messages[key]} {name}" + (f" (oldest {age(messages[since])})" if messages[since] else "")
            for key, since, name in (
                ("n_unpublished", "unpublished_since", "not published yet"),
                ("n_deferred", "deferred_since", "tried again later"),
                ("n_parked", "parked_since", "put aside"),
            )
        )),
        ("database", f"{size(database['n_bytes'])}, PostgreSQL {database['postgresql']}"),
    ])  # fmt: skip
    waiting = [one for one in found.get("queues_of_bus", ()) if one["n_waiting"] or not one["n_consumers"]]
    for rows, columns in (
        (waiting, QUEUES_OF_BUS),
        (found["deferred"], DEFERRED),
        (found["slow"], SLOW),
        (found["tables"], TABLES),
    ):
        if rows:
            say()
            print_table(rows, columns)


def _with_copies(service: Mapping[str, Any]) -> str:
    """A service with how many copies of it take messages. Example: job-dispatch (3 copies)."""
    n_copies = service.get("n_copies")
    return f"{service['service']} ({n_copies} copies)" if (n_copies or 0) > 1 else service["service"]


def size(n_bytes: int) -> str:
    """5963776 -> 5.7 MB."""
    value = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1024 or unit == "GB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"


def _counted(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    return (
        ", ".join(f"{'more than ' * row.get('is_more', False)}{row[name]:,} {row['status']}" for row in rows) or "none"
    )
