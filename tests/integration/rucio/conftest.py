from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.catalogue.rucio.settings import RucioSettings
from tests.drawn import THIRD
from tests.integration.rucio.server import ACCOUNT, PASSWORD, USER, CannotInstall, RucioServer, running
from tests.servers import Servers


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the pushes a third runs what asks a server of Rucio."""
    for item in items:
        if "rucio" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.drawn(0, THIRD))


@pytest.fixture(scope="session")
def rucio(servers_of_tests: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RucioServer]:
    """A Rucio server with the storages A_DISK and B_DISK and the scopes mc, data and orrery."""
    try:
        with running(servers_of_tests.database_url, tmp_path_factory.mktemp("rucio")) as server:
            yield server
    except CannotInstall as error:
        pytest.skip(f"no Rucio server can be installed here: {error}")


@pytest.fixture
def rucio_settings(rucio: RucioServer, tmp_path: Path) -> RucioSettings:
    """How to log in to it."""
    (tmp_path / "password").write_text(PASSWORD + "\n")
    return RucioSettings.model_validate(
        {
            "kind": "rucio",
            "host": rucio.host,
            "account": ACCOUNT,
            "transfer_scope": "orrery",
            "timeout_s": 20,
            "login": {"kind": "userpass", "user_name": USER, "password_file": str(tmp_path / "password")},
        }
    )
