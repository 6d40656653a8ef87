"""One system for all faults that need a single copy of each service, another one with two copies."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.local.servers import stop_servers
from deploy.local.system import LocalSystem, running_system

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = ROOT / ".local" / "chaos"
DEMO_TIMEOUT_S = 240


@dataclass(frozen=True)
class DemoOutcome:
    """What one demonstration printed: its report as JSON, and the lines a person would have seen."""

    code: int
    report: dict[str, Any]
    lines: str


RunDemo = Callable[..., DemoOutcome]


@contextmanager
def fresh_system(name: str, **options: Any) -> Iterator[LocalSystem]:
    """A system without any past, gone afterwards."""
    directory = DIRECTORY / name
    LocalSystem(directory).stop()
    stop_servers(directory)
    shutil.rmtree(directory, ignore_errors=True)
    with running_system(directory, private_servers=True, **options) as system:
        if system.one_process:
            pytest.skip("no RabbitMQ on this machine: the embedded system has no parts to kill one by one")
        yield system


@pytest.fixture(scope="session")
def system() -> Iterator[LocalSystem]:
    with fresh_system("single") as found:
        yield found


@pytest.fixture(scope="session")
def two_of_each() -> Iterator[LocalSystem]:
    with fresh_system("double", replicas=2) as found:
        yield found


@pytest.fixture
def demo() -> RunDemo:
    """Run `orrery demo --profile small` on a system that is up."""

    def run(system: LocalSystem, *faults: str, seed: int = 1) -> DemoOutcome:
        command = [sys.executable, "-m", "services.cli", "demo", "--profile", "small", "--plain", "--json"]
        command += ["--directory", str(system.directory), "--seed", str(seed)]
        for fault in faults:
            command += ["--fault", fault]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEMO_TIMEOUT_S, check=False)
        report = json.loads(done.stdout) if done.stdout.strip() else {}
        return DemoOutcome(done.returncode, report, done.stderr)

    return run
