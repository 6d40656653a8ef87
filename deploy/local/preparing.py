"""What a system needs once before any of its services starts: the schema of its database and its keys."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from deploy.local import services
from deploy.local.errors import LocalError
from deploy.local.servers import ServerAddresses

#: makes the keys whose files the environment names, those that are there stay
_KEYS = """
import os
from pathlib import Path
from shared.auth import Authority
from shared.auth.keyring import create_key_file

Authority.create_file(Path(os.environ["ORRERY_TOKEN_KEY_FILE"]))
create_key_file(Path(os.environ["ORRERY_SECRETS_KEY_FILE"]))
create_key_file(Path(os.environ["ORRERY_CONSOLE_KEY_FILE"]))
"""


def prepare(directory: Path, addresses: ServerAddresses, say: Callable[[str], None]) -> None:
    """Migrate the database of a directory's system, and make the keys that it has not. Raises LocalError."""
    environment = services.base_environment(addresses, directory)
    _run("migrating the database", ["-m", "services.cli", "migrate"], environment, say)
    if not (directory / services.SOURCE_KEY).exists():
        _run("making the source key", ["-m", "shared.signed_sources.keys"], environment, say)
    keys = (services.TOKEN_KEY, services.SECRETS_KEYS, services.CONSOLE_KEYS)
    if not all((directory / name).exists() for name in keys):
        _run("making the keys of tokens, secrets and the console", ["-c", _KEYS], environment, say)


def _run(what: str, arguments: list[str], environment: Mapping[str, str], say: Callable[[str], None]) -> None:
    say(what)
    result = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=services.PROJECT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise LocalError(f"{what} failed:\n{result.stderr.strip()}")
