"""Starts the published pilot as a batch system would, with a fast clock, and follows it by its log."""

from __future__ import annotations

import configparser
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.integration.published_pilot.network import Outside
from tests.integration.published_pilot.package import NAMESPACE
from tests.integration.published_pilot.world import SCRIPT_URL, STORAGE

#: seconds; published: 1800, 60, 120
CLOCK = {"heartbeat": "5", "debug_heartbeat": "5", "update_sleep": "5"}
WAIT_S = 240.0


@dataclass
class Pilot:
    """A pilot that runs."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait_for_line(self, text: str, within_s: float = WAIT_S) -> str:
        """The first line of its log with this text."""
        deadline = time.monotonic() + within_s
        while True:
            for line in self.text.splitlines():
                if text in line:
                    return line
            assert time.monotonic() < deadline and self.process.poll() is None, f"no {text!r}:\n{self.text[-5000:]}"
            time.sleep(0.2)

    def wait(self) -> int:
        """Its exit code."""
        return self.process.wait(WAIT_S)

    def end(self) -> None:
        """End it with all that it started: they share a namespace whose first process this is."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(20)

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")


@dataclass(frozen=True)
class Launcher:
    """Where pilots are, what they call, and with which token."""

    pilot: Path
    address: str
    token: str
    storages: Path
    outside: Outside

    def start(
        self,
        queue: str,
        directory: Path,
        *,
        label: str = "managed",
        input_is_here: bool = True,
        experiment: str = "generic",
        **variables: str,
    ) -> Pilot:
        """One pilot for one job of a queue, with work of this label (`user`: analysis).

        `input_is_here`: it finds input in the folder of a storage; otherwise its copy tool brings it to the job.
        `experiment`: whose plug-ins of the pilot are used.
        """
        directory.mkdir()
        (directory / "token").write_text(self.token)
        config = directory / "pilot.cfg"
        self._write_config(config)
        log = directory / "log"
        host, port = self.address.rsplit(":", 1)
        command = [
            *NAMESPACE, "python3", str(self.pilot / "pilot.py"), "--pilot-user", experiment, "-w", "generic",
            "-q", queue, "-r", queue, "-s", queue, "-j", label, "-i", "PR", "--url", host, "-p", port,
            "--queuedata-url", f"{self.address}/cache/schedconfig/{queue}.all.json",
            "--storagedata-url", f"{self.address}/cache/ddmendpoints.json",
            *(("--input-destination-dir", str(self.storages / STORAGE)) if input_is_here else ()),
            "--use-rucio-traces", "False", "--noproxyverification", "-v", "1", "-x", "1", "-d", "-a", str(directory),
            *self._options_of_newer_ones(),
        ]  # fmt: skip
        environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "PILOT_NOKILL": "1"}
        environment |= {"PANDA_AUTH_TOKEN": "token", "PANDA_AUTH_ORIGIN": "atlas", "PANDA_AUTH_DIR": f"{directory}/"}
        environment |= {"HARVESTER_PILOT_CONFIG": str(config), "X509_USER_PROXY": f"{directory}/token"}
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", **self.outside.environment, **variables}
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, env=environment, cwd=directory, stdout=output, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        return Pilot(process, log)

    def run_inside(self, program: str, directory: Path, stdin: str) -> str:
        """The last line of a Python program that imports the pilot's own modules, in a namespace as pilots have it.

        What these print themselves (3.11.5.1: that psutil is missing) stands before it.
        """
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(self.pilot), "PILOT_HOME": str(directory)}
        environment |= {"PANDA_AUTH_TOKEN": "token", "PANDA_AUTH_ORIGIN": "atlas", "PANDA_AUTH_DIR": f"{directory}/"}
        environment |= {"PANDA_SERVER_URL": self.address, "PILOT_USER": "generic", "PILOT_NOKILL": "1"}
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", **self.outside.environment}
        (directory / "token").write_text(self.token)
        done = subprocess.run(
            [*NAMESPACE, "python3", "-c", program], env=environment, cwd=directory, input=stdin, capture_output=True,
            text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout.splitlines()[-1]

    def _options_of_newer_ones(self) -> list[str]:
        """Say from where scripts may come: 3.7.0.36 has its addresses built in and knows no such option."""
        arguments = self.pilot / "arguments.py"
        if not arguments.exists() or "--baseurls" not in arguments.read_text():
            return []
        return ["--baseurls", SCRIPT_URL.partition("/trf/")[0], "--nocvmfs"]

    def _write_config(self, path: Path) -> None:
        """Its own configuration with a faster clock."""
        config = configparser.ConfigParser()
        config.optionxform = str  # type: ignore[assignment,method-assign]
        config.read(self.pilot / "pilot" / "util" / "default.cfg")
        config["Pilot"].update(CLOCK)
        config["Information"]["queues_url"] = f"{self.address}/cache/schedconfig.json"
        with path.open("w") as file:
            config.write(file)
