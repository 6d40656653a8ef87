"""`orrery shares`: what shares are due and use, why, and how their tree is changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from services.cli.commands.options import NARROW, Json, connect, help_text, rows_of
from services.cli.failures import WrongUsage
from services.cli.output import Column, age, duration, print_fitting, print_json, print_rows, print_table, say


def said(terms: Mapping[str, Any] | None) -> str:
    """The terms of a correction in a line.

    Example: target 50 %; WeekSlice used 75 %: 0.6667 x 0.8; HourSlice used 75 %: 0.6667 x 0.2; sum 0.6667 of at most 3.
    """
    if not terms:
        return "not corrected"
    slices = [
        f"{name} used {100 * part['used']:.4g} %: {part['c']:.4g} x {part['weight']:.4g}"
        for name, part in terms["slices"].items()
    ]
    bound = f"sum {terms['total']:.4g} of at most {terms['max_global']:.4g}"
    return "; ".join([f"target {100 * terms['target']:.4g} %", *slices, bound])


EXPLAIN = "--explain"
#: use is kept so long
LONGEST_HISTORY_H = 168.0
#: what is always shown, and what is left out after the rules by which tasks get a share
FIRST = ("gshare", "due percent", "corrected percent", "running cores", "queued jobs")
MAY_GO = ("value", "running jobs", "correction factor", "parent")
EXPLAINED = (
    ("place", "place"),
    ("share", "gshare"),
    ("due %", "due_percent"),
    ("used %", "used_percent"),
    ("standing", "standing"),
    ("factor", "correction_factor"),
    ("corrected %", "corrected_percent"),
    ("pledged HS06", "pledged_hs06"),
    ("received HS06", "received_hs06"),
    ("used / due", "ratio"),
    ("queued", "queued_jobs"),
    ("because", lambda row: said(row.get("terms"))),
)
EXPLAINED_MAY_GO = ("received HS06", "pledged HS06", "corrected %", "used / due", "queued", "place")


USERS: Sequence[Column] = (
    ("user", "user_name"),
    ("factor", "correction_factor"),
    ("because", lambda row: said(row["terms"])),
)
HISTORY: Sequence[Column] = (("ago", lambda row: age(row["at"])), ("factor", "factor"), ("because", said))


CHANGES = (
    ("share", "gshare"),
    ("change", "change"),
    ("due % before", "due_percent_before"),
    ("after", "due_percent_after"),
    ("fields", lambda row: "; ".join(f"{name}: {old} -> {new}" for name, (old, new) in row["fields"].items())),
)


class OptionalShare(TyperGroup):
    """Lets `--explain` stand alone, for all shares, or before the name of one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As the group's own; an option without a value gets an empty one."""
        for place, one in enumerate(args):
            if one == EXPLAIN and (place + 1 == len(args) or args[place + 1].startswith("-")):
                args = [*args[:place], f"{EXPLAIN}=", *args[place + 1 :]]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    text = help_text(f"List shares: target, usage, correction. {NARROW}", "share_correction", "user")
    group = typer.Typer(cls=OptionalShare, invoke_without_command=True, help=text)
    group.callback(help=text)(shares)
    does = (
        "Check a tree of shares, and work queues with it, against live tasks, say what it changes, and put it in the "
        "place of the present one."
    )
    group.command("edit", help=help_text(does, "share_correction", "operator"))(edit)
    app.add_typer(group, name="shares")


def shares(
    ctx: typer.Context,
    explain: Annotated[
        str | None,
        typer.Option(
            EXPLAIN,
            metavar="[SHARE]",
            help="Who borrows, who is starved, and why: of all shares, or of one with its users and its last hours.",
        ),
    ] = None,
    hours: Annotated[
        float | None,
        typer.Option("--hours", min=0.1, help="What was used in so many hours, with or without corrections."),
    ] = None,
    as_json: Json = False,
) -> None:
    """One line per share."""
    if ctx.invoked_subcommand is not None:
        return
    if explain is not None:
        explain_shares(explain, hours, as_json)
        return
    if hours is not None:
        show_history(connect().get("share_correction", "share/history", hours=hours), as_json)
        return
    rows = rows_of(connect().get("share_correction", "share/list"), "shares")
    if as_json:
        print_json(rows)
        return
    names = dict.fromkeys(["gshare", *(name for row in rows for name in row)])
    told = [name for name in names if name == "gshare" or any(row.get(name) not in (None, "") for row in rows)]
    columns = [(name.replace("_", " "), name) for name in told]
    rules = [heading for heading, _ in columns if heading not in {*FIRST, *MAY_GO}]
    print_fitting(rows, columns, may_go=[*rules, *MAY_GO], cut=FIRST[0])


def show_order(rows: Sequence[Mapping[str, Any]], as_json: bool = False) -> None:
    """Shares in the order in which they are served, as JSON or as a table of what fits."""
    print_rows(rows, EXPLAINED, may_go=EXPLAINED_MAY_GO, cut="share", as_json=as_json)


def show_history(found: Mapping[str, Any], as_json: bool = False) -> None:
    """What was used: a line for each bucket, a column for each share or user."""
    if as_json:
        print_json(found)
        return
    if not any(bucket["hs06"] for bucket in found["buckets"]):
        say("nothing was used in these hours")
        return
    columns: list[Column] = [("from", lambda row: f"{str(row['begins_at'])[:16].replace('T', ' ')} UTC")]
    columns += [("HS06", "hs06")]
    columns += [(f"{name} %", partial(_percent, name)) for name in found["names"]]
    whose = f"users of {found['gshare']}" if found.get("gshare") else "shares"
    print_table(found["buckets"], columns, title=f"mean use of {whose} in every {duration(found['width_s'])}")


def _percent(name: str, bucket: Mapping[str, Any]) -> Any:
    return bucket["percent"].get(name, 0.0)


def explain_shares(gshare: str, hours: float | None, as_json: bool) -> None:
    """All shares in the order in which they are served, or one over time."""
    back = 24.0 if hours is None else hours
    client, params = connect(), {"gshare": gshare, "hours": back} if gshare else {}
    found = client.call("GET", "share_correction", "share/explain", params=params)
    if gshare or hours is not None:
        use = client.get("share_correction", "share/history", gshare=gshare or None, hours=min(back, LONGEST_HISTORY_H))
        found = {**found, "use": use}
    if as_json:
        print_json(found)
        return
    show_order(found["shares"])
    if found.get("users"):
        print_table(found["users"], USERS, title="Users")
    if found.get("history"):
        print_table(found["history"], HISTORY, title="Corrections")
    if found.get("use"):
        say()
        show_history(found["use"])


def edit(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A tree as in shares.json of a grid folder, or that and work_queues.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change, or why not.")] = False,
    as_json: Json = False,
) -> None:
    """A tree that takes away a share that live tasks have is refused, with their numbers."""
    tree, queues = read_tree(file)
    client = connect()
    if queues is not None:  # both are checked before either is put in place
        client.post("task_definition", "work_queue/load", {"work_queues": queues, "dry_run": True})
    data = client.post("share_correction", "share/load", {"shares": tree, "dry_run": dry_run})
    if queues is not None and not dry_run:
        client.post("task_definition", "work_queue/load", {"work_queues": queues})
    if as_json:
        print_json(data)
        return
    print_table(data["changes"], CHANGES)
    done = "would be loaded; nothing was changed" if dry_run else "loaded"
    say(f"{data['n_shares']} shares {done}" if data["changes"] else f"{data['n_shares']} shares, as they are")
    if queues is not None:
        say(f"{len(queues)} work queues {done}")


def read_tree(file: Path) -> tuple[Sequence[Any], Sequence[Any] | None]:
    """The list of shares in a file, or under "shares" and "work_queues" in it. Raises WrongUsage."""
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise WrongUsage(f"FILE: value {str(file)!r}: cannot be read: {error}") from None
    tree, queues = content, None
    if isinstance(content, dict):
        tree, queues = content.get("shares"), content.get("work_queues")
    if not isinstance(tree, list) or not isinstance(queues, list | None):
        what = "must be a list of shares, or an object with the list 'shares' and, if need be, the list 'work_queues'"
        raise WrongUsage(f"FILE: value {str(file)!r}: {what}")
    return tree, queues
