"""`orrery demo`: the whole system at work, from nothing to registered outputs."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Annotated

import typer

from services.cli.commands.options import Json
from services.cli.demo.faults import parse_fault
from services.cli.demo.profiles import PROFILES, profile_named
from services.cli.output import console, print_json


def register(app: typer.Typer) -> None:
    app.command(
        "demo",
        help="Start the system, submit nine tasks, send simulated pilots, watch, check.\n\n"
        "Exit code 0 only if every task ended as it should and no invariant is broken. Ctrl-C stops it all.\n\n"
        "Service: all, started here unless they run. Role: none.",
    )(demo)


def demo(
    profile: Annotated[str, typer.Option("--profile", help=f"How much work: {', '.join(PROFILES)}.")] = "full",
    pilots: Annotated[int | None, typer.Option("--pilots", min=1, max=5000, help="How many pilots (profile).")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of what the pilots draw (default: drawn).")] = None,
    embedded: Annotated[bool, typer.Option("--embedded", help="All services in one process, PostgreSQL only.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the system running at the end.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Open the console on the tasks, and leave the system running.")
    ] = False,
    replicas: Annotated[int, typer.Option("--replicas", min=1, max=20, help="Copies of each service.")] = 1,
    directory: Annotated[Path | None, typer.Option("--directory", help="Where the system lives (.local).")] = None,
    volatile: Annotated[bool, typer.Option("--volatile", help="Do not wait for the disk (tests).")] = False,
    fault: Annotated[
        list[str] | None,
        typer.Option("--fault", help="For tests: kill:NAME or restart:NAME, with @FRACTION of files done; repeatable."),
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines even in a terminal.")] = False,
    as_json: Json = False,
) -> None:
    """Everything on one screen."""
    from services.cli.demo.program import DemoOptions, demonstrate  # what other verbs need not wait for
    from services.cli.demo.stage import StageOptions

    chosen = profile_named(profile)
    if pilots is not None:
        chosen = dataclasses.replace(chosen, n_pilots=pilots)
    options = DemoOptions(
        profile=chosen,
        seed=seed if seed is not None else random.SystemRandom().randrange(1, 10**6),
        stage=StageOptions(directory, embedded=embedded, keep=keep or watch, replicas=replicas, durable=not volatile),
        faults=tuple(parse_fault(text) for text in fault or ()),
        watch=watch,
    )
    verdict = demonstrate(options, plain=plain or as_json, to_error=as_json)
    if as_json:
        print_json(verdict.as_dict())
    else:
        _where_to_look(kept=keep or watch)
    if verdict.problems:
        raise typer.Exit(1)


def _where_to_look(*, kept: bool) -> None:
    up = "the system is still up (make down stops it)" if kept else "make up starts the system again, with all its data"
    shown = console()
    shown.print(f"where to look: {up}; then")
    for command, what in (
        ("orrery console", "all of it in a browser"),
        ("orrery tasks", "what there is"),
        ("orrery task ID", "one task, its datasets and jobs"),
        ("orrery explain task ID", "why its jobs went where they went"),
        ("orrery queues --busy", "who does the work"),
        ("make logs", "what servers, services and pilots said"),
        ("README.md", "how it works"),
    ):
        shown.print(f"  {command:24} {what}")
