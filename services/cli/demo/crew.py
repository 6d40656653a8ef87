"""Runs the demonstration's simulated pilots.

They are a process of their own, so that they take no time from what is shown.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from services.cli.addresses import RUN_FILE_VARIABLE

STOP_GRACE_S = 10.0


@dataclass(frozen=True)
class CrewOptions:
    """How many pilots, how fast their payloads, the seed of all draws, and when they end in any case."""

    n_pilots: int
    speed_up: float
    seed: int
    longest_s: float = 900.0


@contextmanager
def crew(
    options: CrewOptions, *, run_file: Path, environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Pilots for the length of a block. They get a session of their own: a Ctrl-C is ours to pass on."""
    command = [sys.executable, "-m", "services.cli", "pilots", "--count", str(options.n_pilots)]
    command += ["--speed-up", str(options.speed_up), "--seed", str(options.seed)]
    command += ["--duration-s", str(options.longest_s)]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment, RUN_FILE_VARIABLE: str(run_file), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        dismiss(process)


def dismiss(process: subprocess.Popen[bytes]) -> None:
    """Ask the pilots to end, and end them if they do not."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
