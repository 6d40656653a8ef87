"""Runtime parameters: types and fall-backs."""

from __future__ import annotations

from typing import Any

import pytest

from shared.config.parameters import Parameters
from shared.config.settings import Settings, SettingsError, load_settings
from shared.config.typed import typed
from shared.db import Database


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("5", "int", 5),
        ("0.5", "float", 0.5),
        ("text", "str", "text"),
        ("True", "bool", True),
        ("0", "bool", False),
        ('{"a": [1]}', "json", {"a": [1]}),
    ],
)
def test_a_value_has_its_type(value: str, kind: str, expected: Any) -> None:
    assert typed(value, kind) == expected


@pytest.mark.parametrize(
    ("value", "kind"),
    [("x", "int"), ("x", "float"), ("nan", "float"), ("inf", "float"), ("maybe", "bool"), ("{", "json")],
)
def test_a_value_of_the_wrong_type_is_refused(value: str, kind: str) -> None:
    with pytest.raises(ValueError, match=f"is not of type {kind}"):
        typed(value, kind)


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match="allowed are str, int, float, bool, json"):
        typed("x", "date")


def test_the_value_of_the_vo_goes_before_the_value_for_all() -> None:
    parameters = Parameters()
    assert parameters.get("jobbroker", "CAP", vo="atlas", default=3) == 3
    parameters.set_for_test("jobbroker", "CAP", 10)
    parameters.set_for_test("jobbroker", "CAP", 20, vo="atlas")
    assert parameters.get("jobbroker", "CAP", vo="atlas", default=3) == 20
    assert parameters.get("jobbroker", "CAP", vo="other", default=3) == 10
    assert parameters.get("jobbroker", "CAP", app="other", default=3) == 3


def test_a_whole_number_will_do_where_a_fraction_is_asked_for_but_not_a_truth_value() -> None:
    parameters = Parameters()
    parameters.set_for_test("c", "F", 2)
    parameters.set_for_test("c", "B", True)
    value = parameters.get("c", "F", default=0.5)
    assert value == 2.0 and isinstance(value, float)
    assert parameters.get("c", "B", default=7) == 7
    assert parameters.get("c", "B", default=False) is True


async def test_parameters_are_read_again_when_their_version_changes(database: Database) -> None:
    parameters = Parameters()
    insert = "INSERT INTO parameters (component, key, value, type, vo) VALUES ($1, $2, $3, $4, $5)"
    async with database.read() as connection:
        await connection.execute(insert, "jobbroker", "CAP", "10", "int", "")
        await connection.execute(insert, "jobbroker", "BROKEN", "x", "int", "")
        assert await parameters.refresh(connection)
        assert not await parameters.refresh(connection)
        await connection.execute(insert, "jobbroker", "CAP", "20", "int", "atlas")
        assert not await parameters.refresh(connection), "the version row did not move"
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
        assert await parameters.refresh(connection)
    assert parameters.get("jobbroker", "CAP", vo="atlas", default=0) == 20
    assert parameters.get("jobbroker", "CAP", default=0) == 10
    assert parameters.get("jobbroker", "BROKEN", default=4) == 4


def test_every_wrong_variable_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORRERY_DATABASE_URL", raising=False)
    monkeypatch.setenv("ORRERY_HTTP_PORT", "http")
    monkeypatch.setenv("ORRERY_LOG_FORMAT", "xml")
    with pytest.raises(SettingsError) as caught:
        load_settings(Settings)
    text = str(caught.value)
    assert "ORRERY_DATABASE_URL is not set" in text
    assert "ORRERY_HTTP_PORT='http'" in text
    assert "ORRERY_LOG_FORMAT='xml'" in text and "'plain' or 'json'" in text


async def test_a_stored_value_outside_its_range_is_read_as_the_default_and_reported(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    parameters = Parameters()
    async with database.read() as connection:
        await connection.execute(
            "INSERT INTO parameters (app, component, key, value, type) VALUES"
            " ('jedi', 'jobgen', 'THROTTLED_RETRY_S', '1e308', 'float'), ('jedi', 'plugin', 'OWN', '1e308', 'float')"
        )
        await parameters.refresh(connection, force=True)
    assert parameters.get("jobgen", "THROTTLED_RETRY_S", default=30.0) == 30.0
    assert "jobgen.THROTTLED_RETRY_S = '1e308' ignored, its default applies: allowed: a number from 1" in caplog.text
    assert parameters.get("plugin", "OWN", default=1.0) == 1e308, "a plugin's own parameters are its own affair"
