"""Permissions to fetch archives: signed, expiring, and good through a rotation of the keys."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from shared.signed_sources import SourceKeys
from shared.signed_sources.keys import LOOKED_AT_EVERY_S, create_file, read_keys, rotate_file

NOW = 1_800_000_000.0


def test_a_permission_opens_its_task_until_it_expires() -> None:
    keys = SourceKeys.generate()
    permission = keys.permission(12, NOW + 60)
    assert keys.task_of(permission, NOW) == 12 and keys.task_of(permission, NOW + 59) == 12
    assert keys.task_of(permission, NOW + 60) is None
    assert permission.count("/") == 0 and len(permission) < 80


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one.replace("12.", "13.", 1), lambda one: one.replace("12.18", "12.19", 1),
        lambda one: "0" + one, lambda one: one + "A", lambda one: one[:-1], lambda one: one + "\n",
        lambda one: one.rpartition(".")[0] + ".", lambda one: "", lambda one: "12..", lambda one: one.swapcase(),
        lambda one: one.replace("12.", "\u0661\u0662.", 1), lambda one: one.replace("12.", "-12.", 1),
    ],
)  # fmt: skip
def test_what_was_changed_opens_nothing(change) -> None:  # type: ignore[no-untyped-def]
    keys = SourceKeys.generate()
    assert keys.task_of(change(keys.permission(12, NOW + 60)), NOW) is None


def test_another_installations_key_opens_nothing() -> None:
    assert SourceKeys.generate().task_of(SourceKeys.generate().permission(12, NOW + 60), NOW) is None


def test_the_file_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "private" / "source_key"
    create_file(path)
    before = path.read_bytes()
    create_file(path)
    assert path.read_bytes() == before and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["source_key"]


def test_what_an_older_key_signed_is_good_after_rotations(tmp_path: Path) -> None:
    path = tmp_path / "source_key"
    create_file(path)
    seconds = [0.0]
    signer, verifier = (SourceKeys.from_file(path, clock=lambda: seconds[0]) for _ in range(2))
    first = signer.permission(1, NOW + 60)
    rotate_file(path)
    assert len(read_keys(path)) == 2 and stat.S_IMODE(path.stat().st_mode) == 0o600
    seconds[0] += LOOKED_AT_EVERY_S
    second = signer.permission(2, NOW + 60)
    assert SourceKeys(read_keys(path)[:1]).task_of(second, NOW) == 2, "the new key signs, without a restart"
    seconds[0] -= LOOKED_AT_EVERY_S
    assert verifier.task_of(second, NOW) == 2, "who verifies looks at once for a key that it does not know"
    assert verifier.task_of(first, NOW) == 1
    for _ in range(4):
        rotate_file(path)
    assert SourceKeys.from_file(path).task_of(first, NOW) is None, "a few older keys stay, not all"


def test_a_file_that_breaks_while_it_is_used_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "source_key"
    create_file(path)
    keys = SourceKeys.from_file(path)
    permission = keys.permission(1, NOW + 60)
    path.write_text("broken")
    os.utime(path, ns=(1, 1))
    assert keys.task_of("1.1800000060." + "A" * 32, NOW) is None and keys.task_of(permission, NOW) == 1


@pytest.mark.parametrize("text", ["", "\n", "abc", "a" * 63, "g" * 64, "a" * 64 + "\nsecret"])
def test_a_file_without_keys_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "source_key"
    path.write_text(text)
    with pytest.raises(ValueError, match="allowed: 64 of 0-9a-f in each line") as refused:
        SourceKeys.from_file(path)
    assert "secret" not in str(refused.value)
