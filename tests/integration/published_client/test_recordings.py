"""The recordings that other tests submit are what the published programs send."""

from __future__ import annotations

import gzip
import json
import re
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from services.task_definition.tasks.policy.client_defaults import with_client_defaults
from services.task_definition.tasks.policy.task_spec import parse_task
from shared.model.dataset_types import ARCHIVE_STREAM, SOURCES_STREAM
from tests.integration.published_client.person import Person
from tests.unit.brokerage.conformance import sample

RECORDED = {one["in"]["name"]: one for one in sample("client_visible")["cases"]}
#: run at every push: one of each program, and options of users that this system carries out otherwise than it is asked
ALWAYS = (
    "prun_nskip", "prun_merge_log", "prun_psl", "prun_skipscout", "prun_grl", "pa_merge_nobuild", "ph_n",
)  # fmt: skip
#: recorded without a server: over HTTP the client takes no answer to a request for event picking as its True, and
#: --intrSrv calls a server that is named in the client
NOT_OVER_HTTP = {"prun_evp", "prun_evp_all", "pa_jo_evp_all", "pa_intrsrv"}
EIGHTH = 8
_DRAWN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: in which pcontainer hands its options to prun
_OPTIONS_FILE = re.compile(r"--loadJson=\S+")
#: of the machine that was recorded
_OF_MACHINE = ("osInfo", "sourceURL")


class _Recorder(BaseHTTPRequestHandler):
    """Answers every call with success, and keeps the tasks."""

    tasks: list[Any]

    def log_message(self, *_: Any) -> None:
        """Nothing is written to the terminal."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.endswith("task/submit"):
            self.tasks.append(json.loads(body)["task_parameters"])
        message = "NOTFOUND" if "validate_cache_file" in self.path else "succeeded. new jediTaskID=1"
        answer = json.dumps({"success": True, "message": message, "data": [0, message]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = _answer


def _marks(nth: int, name: str) -> list[pytest.MarkDecorator]:
    """Of all recordings a push runs an eighth."""
    return [] if name in ALWAYS else [pytest.mark.drawn(nth % EIGHTH, EIGHTH)]


@contextmanager
def recorder() -> Iterator[tuple[str, list[Any]]]:
    """The address of a server that keeps what is submitted, and what it kept."""
    tasks: list[Any] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Recorder", (_Recorder,), {"tasks": tasks}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", tasks
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def token() -> str:
    """What the client reads of its own token, which nobody checks here."""
    told = {"sub": "jdoe", "preferred_username": "jdoe", "name": "jdoe", "groups": ["atlas"], "exp": 4_000_000_000}
    parts = ({"alg": "none", "kid": "1"}, told)
    return ".".join([*(urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts), "x"])


def plain(task: dict[str, Any], address: str) -> Any:
    """Without what is drawn, and what belongs to the machine."""
    text = json.dumps({name: value for name, value in task.items() if name not in _OF_MACHINE}, sort_keys=True)
    text = _OPTIONS_FILE.sub("--loadJson=FILE", text)
    return json.loads(_DRAWN.sub("UUID", text).replace(address, "https://pandacache.cern.ch"))


def _place(person: Person, given: dict[str, Any]) -> None:
    """Put the files there that a case is about, and an Athena that tells what its job options told."""
    work = person.work_directory()
    (work / given.get("rundir", ".")).mkdir(exist_ok=True)
    for file, content in given.get("files", {}).items():
        place = work / file
        place.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        place.write_bytes(gzip.compress(text.encode()) if place.suffix == ".tgz" else text.encode())
    if "extractor" in given:
        (work / "told").write_text(given["extractor"])
        athena = person.programs() / "athena.py"
        athena.write_text(f"#!/bin/sh\ncat {work / 'told'}\n")
        athena.chmod(0o755)


@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(nth, name)) for nth, name in enumerate(RECORDED)])
def test_a_recorded_command_line_makes_the_published_program_send_what_was_recorded(
    name: str, client_folder: Path, tmp_path: Path
) -> None:
    given, out = RECORDED[name]["in"], RECORDED[name]["out"]
    installed = tmp_path / "installed" / "etc" / "panda"
    installed.mkdir(parents=True)
    (installed / "share").symlink_to(client_folder / "share")
    own = {
        "PANDA_SYS": str(tmp_path / "installed"),
        "PANDA_AUTH": "oidc",
        "PANDA_AUTH_VO": "atlas",
        "PANDA_AUTH_ID_TOKEN": token(),
    }
    work = str(tmp_path / "work")
    recorded_there = {key: value.replace("/home/jdoe/work", work) for key, value in given.get("env", {}).items()}
    with recorder() as (address, tasks):
        person = Person(client_folder, tmp_path, address, {**own, **recorded_there})
        _place(person, given)
        said = person.run(given["command"], *given["args"], within=given.get("rundir", "."))
        sent = [] if out is None or name in NOT_OVER_HTTP else out["tasks"]
        assert [plain(one, address) for one in tasks] == [plain(one["task_params"], address) for one in sent], said.text


@pytest.mark.parametrize(
    ("options", "reader"), [([], "build"), (["--bexec", "make"], "build"), (["--noBuild"], "jobs")]
)
def test_an_archive_uploaded_before_is_read_by_what_unpacks_it(
    client_folder: Path, tmp_path: Path, options: list[str], reader: str
) -> None:
    """prun --tarBallViaDDM: by the build job, which there is unless it is refused."""
    installed = tmp_path / "installed" / "etc" / "panda"
    installed.mkdir(parents=True)
    (installed / "share").symlink_to(client_folder / "share")
    own = {"PANDA_SYS": str(tmp_path / "installed"), "PANDA_AUTH": "oidc", "PANDA_AUTH_VO": "atlas"}
    given = ["--tarBallViaDDM", "user.jdoe.code:code.tgz", "--exec", "sh run.sh", "--outputs", "out.txt"]
    with recorder() as (address, tasks):
        person = Person(client_folder, tmp_path, address, {**own, "PANDA_AUTH_ID_TOKEN": token()})
        person.work_directory()
        person.run("prun", *given, "--outDS", "user.jdoe.archive", "--nJobs", "2", *options)
    [sent] = tasks
    spec = parse_task(with_client_defaults(sent, "https://field/trf", {"run": "runGen", "build run": "buildGen"}))
    [archive] = [one for one in spec.parameters.job_parameters if one.param_type == "input"]
    assert (archive.dataset, archive.files, archive.hidden) == ("user.jdoe.code", ["code.tgz"], True)
    assert archive.value == f"${{{SOURCES_STREAM if reader == 'build' else ARCHIVE_STREAM}}}"
    assert ("--noTarballDownload" in str(sent.get("buildSpec"))) == (reader == "build")
