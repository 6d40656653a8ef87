"""The keys of secrets: a file of several, the newest encrypts, all decrypt, each for its owner alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.auth.keyring import Keyring, NoKey, Sealed, add_key, create_key_file


def test_a_text_is_read_again_by_its_owner_alone_and_not_when_a_bit_is_changed(tmp_path: Path) -> None:
    create_key_file(path := tmp_path / "inside" / "keys")
    keyring = Keyring(path)
    sealed = keyring.seal("hübsch", "KEY", "ada", "atlas")
    assert keyring.open(sealed, "KEY", "ada", "atlas") == "hübsch"
    assert keyring.seal("hübsch", "KEY", "ada", "atlas").data != sealed.data, "each time another nonce"
    for other in (("KEY", "bob", "atlas"), ("KEY", "ada", "cms"), ("K", "EYada", "atlas"), ("KEY", "ada")):
        with pytest.raises(NoKey, match="was not encrypted with the key"):
            keyring.open(sealed, *other)
    changed = [sealed.data[:-1] + bytes([sealed.data[-1] ^ 1]), sealed.data[:-1], sealed.data[:12], b""]
    for data in changed:
        with pytest.raises(NoKey):
            keyring.open(Sealed(sealed.key_id, data), "KEY", "ada", "atlas")


def test_a_key_that_is_added_encrypts_in_every_process_and_the_older_ones_still_decrypt(tmp_path: Path) -> None:
    create_key_file(path := tmp_path / "keys")
    create_key_file(path)
    running, old_text = Keyring(path), path.read_text()
    old = running.seal("text", "x")
    new = add_key(path)
    assert path.stat().st_mode & 0o777 == 0o600 and path.read_text().startswith(old_text)
    assert running.newest() == new != old.key_id and running.ids() == (old.key_id, new)
    assert running.seal("text", "x").key_id == new and running.open(old, "x") == "text"
    path.write_text(path.read_text().splitlines()[-1])
    assert Keyring(path).ids() == (new,)
    with pytest.raises(NoKey, match=f"the key {old.key_id} is not in the file that ORRERY_SECRETS_KEY_FILE names"):
        Keyring(path).open(old, "x")


def test_a_file_that_becomes_unreadable_while_a_process_runs_changes_nothing_for_it(tmp_path: Path) -> None:
    create_key_file(path := tmp_path / "keys")
    running = Keyring(path)
    sealed = running.seal("text", "x")
    for broken in ("half a key", ""):
        path.write_text(broken)
        assert running.open(running.seal("more", "x"), "x") == "more" and running.open(sealed, "x") == "text"
    path.unlink()
    assert running.open(running.seal("more", "x"), "x") == "more"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no key in it"),
        ("# nothing\n\n", "there is no key in it"),
        ("QUJD\n", "line 1 is no key"),
        ("# first\nnot base64!\n", "line 2 is no key"),
        ("\u00e9" * 44, "line 1 is no key"),
    ],
)
def test_a_file_without_good_keys_is_refused_with_the_line(tmp_path: Path, text: str, said: str) -> None:
    (path := tmp_path / "keys").write_text(text)
    with pytest.raises(ValueError, match=said):
        Keyring(path)
    with pytest.raises(ValueError, match=said):
        add_key(path)
    assert path.read_text() == text


def test_without_a_file_nothing_is_encrypted(tmp_path: Path) -> None:
    with pytest.raises(NoKey, match="ORRERY_SECRETS_KEY_FILE names no file"):
        Keyring(None).seal("text", "x")
