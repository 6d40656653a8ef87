"""The demonstration from beginning to end."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from services.cli.addresses import Addresses
from services.cli.client import Client
from services.cli.commands.catalogue import IMPORT_TIMEOUT_S, read_catalogue
from services.cli.commands.console import LIFETIME_S, open_in_browser, sign_in_link
from services.cli.commands.grid import LOAD_TIMEOUT_S
from services.cli.commands.invariants import run_check, violations
from services.cli.commands.submission import submit_one
from services.cli.commands.watching import ENDED
from services.cli.demo.crew import CrewOptions, crew
from services.cli.demo.display import Display, PlainDisplay, make_display
from services.cli.demo.evidence import sights_of, sights_table
from services.cli.demo.examples import Example, catalogue_files, folder, read_examples
from services.cli.demo.faults import FaultInjector, InjectedFault
from services.cli.demo.observation import Observation, Observer
from services.cli.demo.parameters import parameters_set
from services.cli.demo.profiles import DemoProfile
from services.cli.demo.stage import StageOptions, addresses_of, system_on
from services.cli.demo.verdict import DemoResult, judge, summary_table
from services.cli.failures import Unreachable
from services.cli.output import console, duration
from services.cli.progress import progress_of
from services.cli.tokens import caller_name, issue
from shared.model.grid import read_grid_folder
from shared.model.visible_text import visible

LOOK_EVERY_S = 1.0
CHECK_TRIES_S = 20.0
ANSWER_WITHIN_S = 60.0
CREW_OUTLIVES_S = 120.0
USER = "demonstration"


@dataclass(frozen=True)
class DemoOptions:
    """What the person asked for."""

    profile: DemoProfile
    seed: int = 1
    stage: StageOptions = field(default_factory=StageOptions)
    faults: Sequence[InjectedFault] = ()
    watch: bool = False


class Demonstration:
    """One run. `run` gives the verdict; whatever happens, what was started is stopped."""

    def __init__(self, options: DemoOptions, display: Display | None = None) -> None:
        self._options = options
        self._display = display or make_display()
        self._started = time.monotonic()
        self._ended_at: dict[int, float] = {}

    def run(self) -> DemoResult:
        """Start, load, submit, send pilots, watch, judge."""
        options = self._options
        with ExitStack() as stack:
            stack.callback(_heed_signals)
            _heed_signals(signal.default_int_handler)
            display = stack.enter_context(self._display)
            system = stack.enter_context(system_on(options.stage, display.say))
            if system.one_process:
                display.say("EMBEDDED: all services in one process, events in-process; no RabbitMQ, no Redis")
            addresses = addresses_of(system)
            client = Client(addresses, token=issue(addresses, USER, ["operator"], lifetime_s=86400))
            self._load(client)
            stack.enter_context(parameters_set(client, options.profile.parameters, display.say))
            run = f"run{int(time.time())}"
            examples = read_examples(options.profile, run)
            tasks = self._submit(client, examples)
            if options.watch:
                self._open_console(addresses, run)
            pilots = stack.enter_context(
                crew(
                    CrewOptions(
                        options.profile.n_pilots,
                        options.profile.speed_up,
                        options.seed,
                        options.profile.time_limit_s + CREW_OUTLIVES_S,
                    ),
                    run_file=Path(system.directory) / "run.json",
                    environment=system.environment,
                    log=Path(system.directory) / "logs" / "pilots.log",
                )
            )
            stack.callback(_heed_signals, signal.SIG_IGN)  # first to be undone: nothing interrupts the tidying up
            display.say(f"{options.profile.n_pilots} simulated pilots are at work")
            injector = FaultInjector(options.faults, system, display.say)
            problems = self._follow(client, list(tasks), pilots, injector)
            display.say("checking the invariants")
            return self._judge(client, tasks, problems)

    def _load(self, client: Client) -> None:
        say = self._display.say
        grid = folder() / "grid"
        body = {"files": read_grid_folder(grid), "keep_times": False}
        _patiently(lambda: client.post("job_brokerage", "grid/load", body, timeout_s=LOAD_TIMEOUT_S))
        say(f"grid loaded from {_shown(grid)}")
        for path in catalogue_files():
            content = read_catalogue(path)
            _patiently(
                lambda content=content: client.post(  # type: ignore[misc]
                    "task_definition", "catalogue/import", content, timeout_s=IMPORT_TIMEOUT_S
                )
            )
            say(f"catalogue loaded from {_shown(path)}")

    def _submit(self, client: Client, examples: Sequence[Example]) -> dict[int, Example]:
        tasks = {}
        for example in examples:
            result = submit_one(client, dict(example.parameters))
            tasks[int(result["task_id"])] = example
            self._display.say(f"task {result['task_id']} submitted: {example.parameters['taskName']}")
        return tasks

    def _open_console(self, addresses: Addresses, run: str) -> None:
        """Open the tasks of this run in a browser, signed in as an operator; without one the link is told alone."""
        token = issue(addresses, caller_name(), ["operator"], lifetime_s=LIFETIME_S)
        url, _ = sign_in_link(addresses, token, f"tasks?q={quote(f'name=*{run}')}")
        self._display.say(f"the console shows the tasks: {url}")
        open_in_browser(url)

    def _follow(
        self, client: Client, task_ids: Sequence[int], pilots: subprocess.Popen[bytes], injector: FaultInjector
    ) -> list[str]:
        """Until all tasks have ended, or the time is up; what went wrong on the way."""
        observer = Observer(client, task_ids)
        deadline = time.monotonic() + self._options.profile.time_limit_s
        try:
            while True:
                seen = observer.look()
                self._display.show(seen)
                self._note_ends(seen)
                if seen.tasks:
                    injector.look(seen.fraction_done)
                if seen.tasks and all(task.status in ENDED for task in seen.tasks):
                    return [] if injector.all_struck else ["the tasks ended before every fault had struck"]
                if pilots.poll() is not None:
                    return [f"the pilots ended with {pilots.returncode}; see their log"]
                if time.monotonic() > deadline:
                    return [f"the tasks did not end within {duration(self._options.profile.time_limit_s)}"]
                time.sleep(LOOK_EVERY_S)
        finally:
            observer.close()

    def _note_ends(self, seen: Observation) -> None:
        for task in seen.tasks:
            if task.status in ENDED:
                self._ended_at.setdefault(task.task_id, seen.at_s)

    def _judge(self, client: Client, tasks: Mapping[int, Example], problems: Sequence[str]) -> DemoResult:
        verdicts, found = [], []
        for task_id, example in tasks.items():
            details = _patiently(
                lambda task_id=task_id: client.get(  # type: ignore[misc]
                    "task_definition", "task/get_details", task_id=task_id, include_kinds=True
                )
            )
            found.append(details)
            took_s = self._ended_at.get(task_id)
            verdicts.append(judge(details, progress_of(details), expected=example.expected, took_s=took_s))
        broken = [_broken(one) for one in _settled_check(client)]
        return DemoResult(verdicts, broken, problems, sights_of(found))


def demonstrate(options: DemoOptions, *, plain: bool = False, to_error: bool = False) -> DemoResult:
    """Run it and print the end (`to_error`: on standard error, where standard output is for JSON)."""
    shown = console(error=to_error)
    started = time.monotonic()
    verdict = Demonstration(options, PlainDisplay(shown) if plain else None).run()
    shown.print()
    shown.print(summary_table(verdict))
    shown.print(sights_table(verdict.sights))
    for problem in verdict.problems:
        shown.print(f"not as it should be: {visible(problem)}", style="red")
    if not verdict.broken_invariants:
        shown.print("orrery check: all invariants hold", style="green")
    shown.print(f"took {duration(time.monotonic() - started)}")
    return verdict


def _heed_signals(handler: Any = None) -> None:
    """What SIGINT and SIGTERM do from now on; None: what they usually do. Only the main thread may say so."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler or signal.default_int_handler)
        signal.signal(signal.SIGTERM, handler or signal.SIG_DFL)


def _settled_check(client: Client) -> list[dict[str, Any]]:
    """What is broken once nothing changes any more: an event on its way is no violation, one that stays is."""
    deadline = time.monotonic() + CHECK_TRIES_S
    while True:
        broken = violations(_patiently(lambda: run_check(client)))
        if not broken or time.monotonic() > deadline:
            return broken
        time.sleep(1.0)


def _broken(row: Mapping[str, Any]) -> str:
    name = row.get("invariant", row.get("name", ""))
    return f"invariant {name} is broken: {row.get('sentence') or dict(row)}"


def _patiently(ask: Callable[[], Any]) -> Any:
    """Ask again while a service is away: one that was killed comes back."""
    deadline = time.monotonic() + ANSWER_WITHIN_S
    while True:
        try:
            return ask()
        except Unreachable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _shown(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return path.name
