"""Which ports and directories private servers are given, and how their records are read."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from deploy.local import account, ports
from deploy.local.account import Account, can_use, place_for
from deploy.local.errors import LocalError
from deploy.local.records import read_record, write_record

STRANGER = Account("stranger", 54_321, 54_321)


def test_a_preferred_port_is_kept_while_it_is_free_and_given_up_when_it_is_not() -> None:
    first = ports.free_port()
    assert ports.free_port(preferred=first) == first
    with socket.socket() as listener:
        listener.bind((ports.LOOPBACK, first))
        listener.listen()
        assert not ports.is_free(first)
        assert ports.free_port(preferred=first) != first


def test_ports_are_below_those_of_outgoing_connections_and_never_given_twice() -> None:
    taken: set[int] = set()
    chosen = [ports.free_port(taken=taken) for _ in range(20)]
    assert len(set(chosen)) == 20 and set(chosen) == taken
    assert all(ports.FIRST_PORT <= port < ports.LAST_PORT and port not in ports.RESERVED_PORTS for port in chosen)


def test_a_private_directory_anywhere_above_shuts_another_user_out(tmp_path: Path) -> None:
    inside = tmp_path / "open" / "deeper"
    inside.mkdir(parents=True)
    tmp_path.chmod(0o700)
    (tmp_path / "open").chmod(0o755)
    assert not can_use(inside, STRANGER)
    assert can_use(Path("/usr/bin"), STRANGER)
    assert can_use(inside, Account("owner", tmp_path.stat().st_uid, 54_321)) or os.geteuid() != 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a directory away")
def test_a_user_who_is_shut_out_gets_a_short_directory_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "OUTSIDE", Path("/var/tmp"))
    tmp_path.chmod(0o700)
    place = place_for(tmp_path, "unit-test", STRANGER)
    try:
        assert place.parent == Path("/var/tmp") and len(str(place)) < 80
        assert place.stat().st_uid == STRANGER.user_id and place.stat().st_mode & 0o777 == 0o700
        assert place_for(tmp_path, "unit-test", STRANGER) == place
        with pytest.raises(LocalError, match="belongs to user id"):
            place_for(tmp_path, "unit-test", Account("another", 54_322, 54_322))
    finally:
        place.rmdir()


def test_a_record_of_another_directory_counts_as_none(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_record(path, tmp_path, {"value": 1})
    assert read_record(path, tmp_path)["value"] == 1
    assert read_record(path, tmp_path / "other") == {}
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text(json.dumps(["not", "a", "record"]))
    assert read_record(path, tmp_path) == {}
    assert read_record(tmp_path / "absent", tmp_path) == {}
