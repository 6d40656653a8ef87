"""`python -m deploy.local`: up, down, status, logs, servers."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from deploy.local import processes, services
from deploy.local.errors import LocalError
from deploy.local.scaling import scale
from deploy.local.servers import VARIABLE_OF, ensure_servers, named_servers, processes_of, running_servers, stop_servers
from deploy.local.supervisor import Supervisor
from deploy.local.system import LocalSystem, start_system
from shared.model.log_lines import one_line
from shared.model.visible_text import visible


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code is 0 when done, 1 for a printed problem, else the command's own."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except LocalError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _up(options: argparse.Namespace) -> int:
    system = LocalSystem(options.directory)
    if system.is_running():
        _say("already up; `down` stops it")
        if options.replicas is not None and not system.one_process:
            for line in scale(system, dict.fromkeys(services.SERVICES, options.replicas)):
                _say(line)
        return _status(options)
    system = start_system(
        options.directory,
        replicas=options.replicas or 1,
        embedded=options.embedded,
        durable=not options.volatile,
        owner_pid=options.owner_pid,
        say=_say,
    )
    n, name = options.replicas or 1, "one process has all services" if system.one_process else ""
    _say(f"up: {name or f'{n} of each of {len(services.SERVICES)} services, and a gateway'}")
    _print_processes(system)
    _say(f"logs: {system.directory / 'logs'}    stop: python -m deploy.local down (make down)")
    _print_console(system)
    return 0


def _scale(options: argparse.Namespace) -> int:
    system = LocalSystem(options.directory)
    for line in scale(system, {options.service: options.copies}):
        _say(line)
    _print_processes(system, only=options.service)
    return 0


def _down(options: argparse.Namespace) -> int:
    system = LocalSystem(options.directory)
    was_running = system.is_running()
    left = system.stop()
    if left:
        _say(f"stopped what was left: {', '.join(left)}")
    _say("stopped" if was_running or left else "nothing is running")
    return 0


def _status(options: argparse.Namespace) -> int:
    system = LocalSystem(options.directory)
    record = system.record
    if options.json:
        entries = [entry | {"ready": services.is_ready(entry["url"])} for entry in record.get("processes", [])]
        pids = {name: identity.pid for name, identity in processes_of(system.directory).items()}
        _say(json.dumps(record | {"state": system.state, "processes": entries, "server_pids": pids}, indent=1))
        return 0 if system.state == "ready" else 1
    _say(f"{system.state}{': ' + record['problem'] if record.get('problem') else ''}")
    if system.state in ("starting", "ready", "stopping"):
        _print_processes(system)
        _print_console(system)
    return 0 if system.state == "ready" else 1


def _print_console(system: LocalSystem) -> None:
    if system.gateway:
        _say(f"console: {system.gateway}/console/    `orrery console` signs you in")


def _print_processes(system: LocalSystem, *, only: str | None = None) -> None:
    """A line for the supervisor, each server and each copy of a service: name, state, process id, address."""
    if only is None:
        _print_servers(system)
    for entry in system.record.get("processes", []):
        if only not in (None, entry["service"]):
            continue
        identity = processes.ProcessIdentity.from_dict(entry["process"])
        alive = processes.is_alive(identity)
        state = "ready" if alive and services.is_ready(entry["url"]) else "running" if alive else "down"
        pid = identity.pid if identity and alive else None
        _say(_line(entry["name"], state, pid, f"{entry['url']}  restarts {entry['restarts']}"))
    if system.gateway and only is None:
        _say(f"pilots and clients call {system.gateway}: every path of every service")


def _print_servers(system: LocalSystem) -> None:
    record, servers, named = system.record, processes_of(system.directory), named_servers(system.directory)
    supervisor = system.supervisor
    if supervisor and processes.is_alive(supervisor):
        _say(_line("supervisor", "running", supervisor.pid))
    for name, variable in VARIABLE_OF.items():
        url, identity = record.get("servers", {}).get(variable), servers.get(name)
        state = "running" if identity else "none" if not url else "named" if name in named else "down"
        _say(_line(name, state, identity.pid if identity else None, f"{_without_password(url or '')}  {variable}"))


def _line(name: str, state: str, pid: int | None, more: str = "") -> str:
    return f"  {name:22} {state:8} pid {pid or '-'!s:8} {more}".rstrip()


def _without_password(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    user, at, address = rest.rpartition("@")
    return f"{scheme}{separator}{user.split(':')[0]}{at}{address}" if at else url


def _logs(options: argparse.Namespace) -> int:
    directory = options.directory.resolve() / "logs"
    files = sorted(path for path in directory.glob("*.log") if path.name.startswith(options.name or ""))
    if not files:
        raise LocalError(f"no log in {directory}" + (f" starts with {options.name}" if options.name else ""))
    command = ["tail", "-n", str(options.lines), *(["-F"] if options.follow else []), *map(str, files)]
    # a server's log holds what callers wrote
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(visible(line.decode(errors="backslashreplace").rstrip("\n"), lines=True), flush=True)
        return process.wait()


def _servers(options: argparse.Namespace) -> int:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    choice = {"durable": not options.volatile, "embedded": options.embedded}
    if options.stop:
        _say(f"stopped: {', '.join(stop_servers(options.directory)) or 'nothing was running'}")
        return 0
    if not command:
        for variable, value in ensure_servers(options.directory, say=_note, **choice).environment().items():
            _say(f"export {variable}='{value}'")
        return 0
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end_in_order)
    with running_servers(options.directory, say=_note, **choice) as servers:
        if servers.embedded:
            _note("EMBEDDED: PostgreSQL only; what needs RabbitMQ or Redis is skipped")
        return _run_with(command, dict(os.environ) | servers.addresses.environment())


def _run_with(command: list[str], environment: dict[str, str]) -> int:
    try:
        child = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise LocalError(f"{command[0]}: {error.strerror}") from error
    try:
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:
                continue  # the command got it too, and says when it is done
    except SystemExit:
        child.terminate()
        child.wait()
        raise


def _end_in_order(number: int, frame: object) -> None:
    """As an exception, so that what was started is stopped."""
    sys.exit(128 + number)


def _supervise(options: argparse.Namespace) -> int:
    owner = processes.identify(options.owner_pid) if options.owner_pid else None
    if options.owner_pid and owner is None:
        raise LocalError(f"there is no process {options.owner_pid} to run for")
    return Supervisor(
        options.directory,
        replicas=options.replicas or 1,
        embedded=options.embedded,
        durable=not options.volatile,
        owner=owner,
        say=_log_line,
    ).run()


def _say(text: str) -> None:
    """A line on standard output. Where the reader has gone (`make up | head`) the work goes on in silence."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _log_line(text: str) -> None:
    text = one_line(text)
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


def _replicas(text: str) -> int:
    number = int(text) if text.isdigit() else 0
    if not 1 <= number <= 20:
        raise argparse.ArgumentTypeError(f"{text!r}: allowed are 1 to 20")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.local", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: object, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument(
            "--directory",
            type=Path,
            default=services.PROJECT / ".local",
            help="where data, logs and records are (.local)",
        )
        command.set_defaults(run=run)
        return command

    for name, run, text in (
        ("up", _up, "start private servers and all services in the background, and wait until they are ready"),
        ("supervise", _supervise, "the same in the foreground (`up` runs this)"),
    ):
        command = add(name, run, text)
        command.add_argument("--replicas", type=_replicas, help="copies of each service (1; if it runs: as they are)")
        command.add_argument(
            "--embedded", action="store_true", help="PostgreSQL from a wheel, all services in one process"
        )
        command.add_argument("--volatile", action="store_true", help="do not wait for the disk (tests)")
        command.add_argument("--owner-pid", type=int, help="stop when this process ends")
        command.set_defaults(json=False)
    command = add("scale", _scale, "have so many copies of a service, while the system runs")
    command.add_argument("service", help=f"one of {', '.join(services.SERVICES)}")
    command.add_argument("copies", type=_replicas, help="how many, 1 to 20")
    add("down", _down, "stop all that was started here, and nothing else")
    status = add("status", _status, "what runs, where, since when; exit code 0 only if all is ready")
    status.add_argument("--json", action="store_true", help="the whole record, passwords included")
    logs = add("logs", _logs, "the end of the logs")
    logs.add_argument("name", nargs="?", help="only logs whose name starts so: job-dispatch, rabbitmq, supervisor")
    logs.add_argument("-f", "--follow", action="store_true", help="go on as they grow")
    logs.add_argument("-n", "--lines", type=int, default=20, help="lines of each (20)")
    servers = add("servers", _servers, "the servers only; with a command after --, for as long as it runs")
    servers.add_argument("--volatile", action="store_true", help="do not wait for the disk (tests)")
    servers.add_argument("--embedded", action="store_true", help="PostgreSQL from a wheel, nothing else")
    servers.add_argument("--stop", action="store_true", help="stop them")
    servers.add_argument("command", nargs=argparse.REMAINDER, help="-- COMMAND ARGUMENTS...")
    return parser


if __name__ == "__main__":
    sys.exit(main())
