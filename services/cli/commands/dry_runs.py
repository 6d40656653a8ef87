"""`orrery snapshot save|task`, `orrery dry-run`, `orrery schema`: brokerage without servers.

The world comes from a file.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel

from services.cli.commands.options import Json, TaskIds, connect, help_text
from services.cli.commands.shares import show_order
from services.cli.commands.submission import read_tasks
from services.cli.commands.task_queues import show
from services.cli.failures import Refused, RejectedField, WrongUsage
from services.cli.identifiers import STANDARD_INPUT, read_ids
from services.cli.output import json_text, print_json, say, say_lines
from shared.model.batches import batches

if TYPE_CHECKING:
    from services.cli.dry_run.deciding import DryRun
    from services.task_definition.tasks.policy.task_file import TaskFile

SAVE_TIMEOUT_S = 300.0
TASKS_OF_A_CALL = 100
#: the parameters that may be changed for a dry run of splitting are those of the brokerage before it
SPLITS_LIKE = "job-brokerage"
PARAMETERS_ALONE = (
    "these are parameters as `orrery submit` takes them; a dry run also needs input and copies: "
    '{"parameters": {...}, "inputs": [...]}, as `orrery snapshot task` writes it and `orrery schema task` describes it'
)
World = Annotated[Path, typer.Option("--world", metavar="FILE", help="A world file (plain or gzipped).")]
Task = Annotated[
    str, typer.Option("--task", metavar="FILE", help="A task file; one task, or one on each line; - is standard input.")
]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A runtime parameter that is different.")
]
Queue = Annotated[
    list[str] | None,
    typer.Option("--queue", metavar="NAME.FIELD=VALUE", help="A field of a queue that is different."),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="Seed of the draw; else that of the task file's nucleus or chunk, else 0."),
]


def register(app: typer.Typer) -> None:
    snapshot = typer.Typer(no_args_is_help=True, help="What brokerage decides on: the live world, and live tasks.")
    text = help_text("Write the live world into a file (- is standard output).", "job_brokerage", "production")
    snapshot.command("save", help=text)(save)
    text = help_text(
        "Write live tasks into a task file, one on each line (- is standard output): parameters as submitted, state,\n"
        "input with copies, the present or last chunk, with what it held when it was offered, and the seeds. With the\n"
        "world saved at the same time a dry run decides as the live system does.\n"
        "Rules among the parameters are in `state.split_rule`, too: take it out to try others.",
        "job_brokerage",
        "production",
    )
    snapshot.command("task", help=text)(save_tasks)
    app.add_typer(snapshot, name="snapshot")
    group = typer.Typer(no_args_is_help=True, help="Decide on a world file as the services would, without any server.")
    for name, does in (
        ("task-brokerage", "Choose a nucleus for a task."),
        ("job-brokerage", "Rank queues for a chunk of a task."),
        ("analysis-brokerage", "Rank queues for a chunk of an analysis task."),
    ):
        group.command(name, help=f"{does}\n\nService: none. Role: none.")(_runner(name))
    text = (
        "Cut a chunk of a task into jobs at the queues that are ranked for it: files, events, disk, memory, walltime,\n"
        "queue, and why each job ended where it did. Files that the task file does not list are taken as equal.\n\n"
        "Service: none. Role: none."
    )
    group.command("split", help=text)(split_chunk)
    text = "Order the shares as dispatch would, with every number that places them.\n\nService: none. Role: none."
    group.command("shares", help=text)(order_shares)
    text = "Order the task queues as dispatch would, with every term.\n\nService: none. Role: none."
    group.command("task-queues", help=text)(order_task_queues)
    app.add_typer(group, name="dry-run")
    app.command("schema", help="Print the JSON Schema of a file.\n\nService: none. Role: none.")(schema)


def save(file: Annotated[str, typer.Argument(metavar="FILE", help="Ending .gz: gzipped.")]) -> None:
    """The file decides as the live system does until the next event."""
    world = connect().call("GET", "job_brokerage", "grid/world", timeout_s=SAVE_TIMEOUT_S)
    write(file, json_text(world, indent=1), f"world version {world['version']} of {world['now']}")


def save_tasks(
    ids: TaskIds, file: Annotated[str, typer.Argument(metavar="FILE", help="Ending .gz: gzipped.", show_default=False)]
) -> None:
    """All of them or none: a task that does not exist is refused."""
    client, wanted, tasks = connect(), read_ids(ids), list[Any]()
    for some in batches(wanted, TASKS_OF_A_CALL):
        tasks += client.call(
            "GET", "task_definition", "task/task_files", params={"task_id": some}, timeout_s=SAVE_TIMEOUT_S
        )
    write(file, "\n".join(json_text(task) for task in tasks), f"{len(tasks)} task{'s' if len(tasks) > 1 else ''}")


def write(file: str, text: str, what: str) -> None:
    """Into a file, saying what; or on standard output alone. Raises WrongUsage."""
    if file == STANDARD_INPUT:
        say_lines(text)
        return
    content = f"{text}\n".encode()
    try:
        Path(file).write_bytes(gzip.compress(content) if file.endswith(".gz") else content)
    except OSError as error:
        raise WrongUsage(f"FILE: value {file!r}: cannot be written: {error}") from None
    say(f"{what} written to {file}")


def schema(what: Annotated[str, typer.Argument(metavar="world|task|decision")]) -> None:
    """As pydantic derives it from the classes that read and write the files."""
    from services.cli.dry_run.document import DecisionDocument  # what other verbs need not wait for
    from services.task_definition.tasks.policy.task_file import TaskFile
    from shared.model.world_file import WorldFile

    models: dict[str, type[BaseModel]] = {"world": WorldFile, "task": TaskFile, "decision": DecisionDocument}
    if what not in models:
        raise WrongUsage(f"schema: value {what!r}: allowed are {', '.join(models)}")
    print_json(models[what].model_json_schema(mode="validation"))


def _runner(brokerage: str) -> Any:
    def run(world: World, task: Task, set_: Set = None, queue: Queue = None, seed: Seed = None) -> None:
        _print_all(decide(brokerage, world, task, set_ or [], queue or [], seed))

    return run


def _print_all(documents: list[dict[str, Any]]) -> None:
    """One document alone, several as a list; refused tasks are an exit code, too."""
    print_json(documents[0] if len(documents) == 1 else documents)
    if any("refused" in one for one in documents):
        raise typer.Exit(Refused.exit_code)


def split_chunk(world: World, task: Task, set_: Set = None, queue: Queue = None, seed: Seed = None) -> None:
    """A document for each task of the file."""
    from services.cli.dry_run.splitting import document, split  # what other verbs need not wait for

    dry_run = dry_run_of(SPLITS_LIKE, world, set_ or [], queue or [])
    documents = _each_task(task, lambda given: document(split(dry_run, given, seed)))
    _print_all(documents)


def order_shares(world: World, as_json: Json = False) -> None:
    """One row for each share."""
    from services.cli.dry_run.shares import order_of_shares  # what other verbs need not wait for

    show_order(_ordered(world, order_of_shares), as_json)


def order_task_queues(world: World, as_json: Json = False) -> None:
    """One row for each task queue."""
    from services.cli.dry_run.task_queues import order_of_task_queues  # what other verbs need not wait for

    show(_ordered(world, order_of_task_queues), as_json)


def _ordered(world: Path, order: Callable[[Any], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What a rule makes of a world file. Raises WrongUsage."""
    from shared.model.problems import InvalidGrid
    from shared.model.world_file import parse_world

    try:
        return order(parse_world(read_world(world), world.name))
    except InvalidGrid as error:
        problems = [RejectedField("", "", str(one)) for one in error.problems]
        raise WrongUsage(f"{world}: is not a world file", problems) from None
    except ValueError as error:
        raise WrongUsage(f"{world}: {error}") from None


def decide(
    brokerage: str, world: Path, task: str, parameters: list[str], queues: list[str], seed: int | None
) -> list[dict[str, Any]]:
    """A decision for each task of the file; a task that makes no sense gets its problems instead."""
    from services.cli.dry_run.document import document_of

    dry_run = dry_run_of(brokerage, world, parameters, queues)
    return _each_task(task, lambda given: document_of(dry_run.decide(brokerage, given, seed)).model_dump(mode="json"))


def _each_task(task: str, decided: Callable[[TaskFile], dict[str, Any]]) -> list[dict[str, Any]]:
    """The document of each task of a file; one that makes no sense gets its problems instead."""
    from services.task_definition.tasks.policy.task_file import parse_task_file
    from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
    from shared.model.problems import InvalidGrid

    documents = []
    for place, one in enumerate(read_tasks(task), start=1):
        try:
            if "taskName" in one:
                raise ValueError(PARAMETERS_ALONE)
            documents.append(decided(parse_task_file(one, f"task {place}")))
        except (InvalidGrid, InvalidTask) as error:
            documents.append({"refused": f"task {place}", "problems": [str(problem) for problem in error.problems]})
        except ValueError as error:
            documents.append({"refused": f"task {place}", "problems": [str(error)]})
    return documents


def dry_run_of(brokerage: str, world: Path, parameters: list[str], queues: list[str]) -> DryRun:
    """The world with what is to be different.

    Raises WrongUsage, which says whether the world or a change is wrong.
    """
    from services.cli.dry_run.changes import WrongChange, change_parameters, change_queues
    from services.cli.dry_run.deciding import DryRun
    from shared.model.problems import InvalidGrid
    from shared.model.world_file import parse_world

    content = read_world(world)
    changed: set[str] = set()
    try:
        change_parameters(content, parameters, brokerage)
        changed = change_queues(content, queues)
        dry_run = DryRun(parse_world(content, world.name))
        dry_run.check_queues(changed)
    except WrongChange as error:
        raise WrongUsage(str(error)) from None
    except InvalidGrid as error:
        of_change = all(one.key in changed for one in error.problems)
        wrong = "--queue: no such queue could be loaded" if of_change else f"{world}: is not a world file"
        raise WrongUsage(wrong, [RejectedField("", "", str(one)) for one in error.problems]) from None
    except ValueError as error:
        raise WrongUsage(f"{world}: {error}") from None
    return dry_run


def read_world(path: Path) -> dict[str, Any]:
    """A decoded world file. Raises WrongUsage."""
    try:
        raw = path.read_bytes()
        content = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    except (OSError, EOFError, ValueError) as error:
        raise WrongUsage(f"--world: value {str(path)!r}: cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise WrongUsage(f"--world: value {str(path)!r}: must be an object")
    return content
