"""What goes wrong between Orrery and a catalogue outside is one line of text, never an exception of a library."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.catalogue.catalogues import read_catalogues
from shared.catalogue.outside import CatalogueTrouble, DataName
from shared.catalogue.rucio.adapter import RucioCatalogue
from shared.catalogue.rucio.settings import RucioSettings
from shared.config.settings import SettingsError
from tests.integration.rucio.server import PASSWORD, RucioServer

NAME = [DataName("mc", "nothing")]


def with_(settings: RucioSettings, **changes: Any) -> RucioSettings:
    return RucioSettings.model_validate(settings.model_dump(exclude_none=True) | changes)


def asked(settings: RucioSettings) -> RucioCatalogue:
    return RucioCatalogue(settings)


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


async def test_a_server_that_is_down_is_told(rucio_settings: RucioSettings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        host = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(CatalogueTrouble, match=f"{host} cannot be reached"):
        await asked(with_(rucio_settings, host=host)).collections(NAME)


async def test_a_server_that_does_not_answer_is_given_up_in_time(rucio_settings: RucioSettings, silent: str) -> None:
    with pytest.raises(CatalogueTrouble, match=r"did not answer within|cannot be reached"):
        await asked(with_(rucio_settings, host=silent, timeout_s=1)).collections(NAME)


async def test_a_wrong_password_is_told_without_it(rucio_settings: RucioSettings, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("wrong-password")
    with pytest.raises(CatalogueTrouble, match="does not let root in") as told:
        await asked(rucio_settings).collections(NAME)
    assert "wrong-password" not in str(told.value)


async def test_a_token_of_a_file_is_used_and_read_again_when_it_was_renewed(
    rucio: RucioServer, rucio_settings: RucioSettings, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("expired\n")
    login = {"kind": "token", "token_file": str(tmp_path / "token")}
    catalogue = asked(with_(rucio_settings, login=login))
    with pytest.raises(CatalogueTrouble, match="is not accepted"):
        await catalogue.collections(NAME)
    (tmp_path / "token").write_text(rucio.token() + "\n")
    assert await catalogue.collections(NAME) == {}


async def test_a_file_with_a_secret_that_is_not_there_is_named(rucio_settings: RucioSettings, tmp_path: Path) -> None:
    login = {"kind": "userpass", "user_name": "x", "password_file": str(tmp_path / "missing")}
    with pytest.raises(CatalogueTrouble, match="missing cannot be read"):
        await asked(with_(rucio_settings, login=login)).collections(NAME)


def test_the_password_of_the_tests_is_not_the_one_of_anybody() -> None:
    assert PASSWORD == "not-a-secret"


GOOD = """
[vo.one]
kind = "rucio"
host = "https://rucio.example.org"
account = "orrery"
transfer_scope = "orrery"
login = {kind = "x509", certificate_file = "/c.pem", key_file = "/k.pem"}
"""


def test_settings_name_a_catalogue_for_each_vo(tmp_path: Path) -> None:
    (tmp_path / "catalogues.toml").write_text(GOOD)
    found = read_catalogues(tmp_path / "catalogues.toml")
    assert (found["one"].account, found["one"].login.kind, found["one"].threads) == ("orrery", "x509", 4)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ('"rucio"', '"other"', "vo.one.kind"),
        ('account = "orrery"', "", "vo.one.account"),
        ('"https://rucio.example.org"', '"rucio"', "vo.one.host"),
        (', key_file = "/k.pem"', "", "vo.one.login: Value error, kind x509 needs certificate_file and key_file"),
        ('key_file = "/k.pem"', 'key_file = "/k.pem", password_file = "/p"', "and nothing else"),
        ('account = "orrery"', 'account = "orrery"\npassword = "x"', "vo.one.password"),
        ("[vo.one]", "[one]", "'one' is not allowed"),
        ("[vo.one]", "[vo.one", "catalogues.toml"),
    ],
)
def test_wrong_settings_are_refused_with_the_field(tmp_path: Path, before: str, after: str, told: str) -> None:
    assert before in GOOD
    (tmp_path / "catalogues.toml").write_text(GOOD.replace(before, after))
    with pytest.raises(SettingsError) as error:
        read_catalogues(tmp_path / "catalogues.toml")
    assert told in str(error.value)
