"""Installing packages must not start their services, and must leave the machine's own policy as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from deploy.local import packages

OWN_POLICY = "#!/bin/sh\nexit 0\n"


@pytest.fixture
def script(tmp_path: Path) -> str:
    """The real script, on files of the test's own."""
    text = packages._SCRIPT
    for path in ("/usr/sbin/policy-rc.d", "/run/lock/orrery-packages.lock"):
        assert path in text
        text = text.replace(path, str(tmp_path / Path(path).name))
    return text


def _start(script: str, tmp_path: Path, apt_get: str) -> subprocess.Popen[str]:
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "apt-get").write_text(f"#!/bin/sh\npolicy={tmp_path}/policy-rc.d\n{apt_get}\n")
    (programs / "apt-get").chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
    return subprocess.Popen(
        ["sh", "-c", script, "sh", "postgresql"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_starting_services_is_forbidden_while_packages_are_installed(script: str, tmp_path: Path) -> None:
    child = _start(script, tmp_path, 'sh "$policy"; echo "policy says $?"')
    output, _ = child.communicate(timeout=60)
    assert child.returncode == 0 and output.count("policy says 101") == 2  # update and install
    assert not (tmp_path / "policy-rc.d").exists()


@pytest.mark.parametrize("apt_get", ["exit 0", "exit 100"])
def test_a_policy_that_was_there_is_put_back(script: str, tmp_path: Path, apt_get: str) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text(OWN_POLICY)
    policy.chmod(0o711)
    child = _start(script, tmp_path, apt_get)
    child.communicate(timeout=60)
    assert child.returncode == int(apt_get.split()[1])
    assert policy.read_text() == OWN_POLICY and policy.stat().st_mode & 0o777 == 0o711
    assert [path.name for path in tmp_path.glob("policy*")] == ["policy-rc.d"]


def test_a_policy_put_aside_by_an_installation_that_was_killed_is_put_back_by_the_next(
    script: str, tmp_path: Path
) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text(OWN_POLICY)
    child = _start(script, tmp_path, f"touch {tmp_path}/started; sleep 30")
    deadline = time.monotonic() + 60
    while not (tmp_path / "started").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate(timeout=60)
    assert policy.read_text() != OWN_POLICY
    _start(script, tmp_path, "exit 0").communicate(timeout=60)
    assert policy.read_text() == OWN_POLICY


def test_a_user_without_root_and_sudo_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(packages.shutil, "which", lambda name: None if name == "sudo" else f"/usr/bin/{name}")
    assert not packages.can_install()
    with pytest.raises(packages.MissingServer, match="rabbitmq-server"):
        packages.install(["rabbitmq-server"], print)
