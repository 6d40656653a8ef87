"""Runtime parameters: types and fall-backs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from services.job_generation.parameters import GenerationParameters
from shared.config.parameter import SHARE, Parameter, set_by
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


CAP = Parameter("jobbroker", "CAP", 3, "jobs", "a cap", suffixes=(SHARE,), also_in=("anal_jobbroker",))
PART = Parameter("jobbroker", "PART", 0.5, "", "a part", high=2)


def test_the_value_of_the_vo_goes_before_the_value_for_all() -> None:
    parameters = Parameters()
    assert parameters.read(CAP, vo="atlas") == 3
    parameters.set_for_test("jobbroker", "CAP", 10)
    parameters.set_for_test("jobbroker", "CAP", 20, vo="atlas")
    parameters.set_for_test("jobbroker", "CAP", 30, app="other")
    assert parameters.read(CAP, vo="atlas") == 20
    assert parameters.read(CAP, vo="other") == 10
    assert parameters.read(CAP) == 10


def test_a_value_for_a_name_goes_before_that_of_the_key_and_an_earlier_component_before_a_later() -> None:
    parameters, both = Parameters(), ("anal_jobbroker", "jobbroker")
    parameters.set_for_test("jobbroker", "CAP", 10)
    parameters.set_for_test("anal_jobbroker", "CAP", 20)
    assert [parameters.read(CAP, "MC"), parameters.read(CAP, "MC", components=both)] == [10, 20]
    parameters.set_for_test("jobbroker", "CAP_MC", 30)
    assert [parameters.read(CAP, name, components=both) for name in ("MC", "Data", None)] == [30, 20, 20]
    assert list(parameters.found(CAP, "MC", components=both)) == [30, 20, 10]


def test_a_whole_number_will_do_where_a_fraction_is_declared_but_not_a_truth_value() -> None:
    parameters = Parameters()
    parameters.set_for_test("jobbroker", "PART", 2)
    value = parameters.read(PART)
    assert value == 2.0 and isinstance(value, float)
    parameters.set_for_test("jobbroker", "CAP", 7.0)
    assert isinstance(parameters.read(CAP), int) and parameters.read(CAP) == 7
    parameters.set_for_test("jobbroker", "CAP", True)
    assert parameters.read(CAP) == 3


def test_a_value_that_its_declaration_does_not_allow_is_told_once_and_the_next_one_applies(
    caplog: pytest.LogCaptureFixture,
) -> None:
    parameters = Parameters()
    parameters.set_for_test("jobbroker", "CAP_MC", "many")
    parameters.set_for_test("jobbroker", "CAP", 10)
    assert [parameters.read(CAP, "MC"), parameters.read(CAP, "MC")] == [10, 10]
    assert caplog.text.count("jobbroker.CAP_MC = 'many' ignored") == 1


def test_a_class_is_filled_from_the_parameters_that_its_fields_declare() -> None:
    @dataclass(frozen=True)
    class Limits:
        cap: int = set_by(CAP, int)
        percent: float = set_by(PART, lambda part: part * 100)
        constant: int = 5

    parameters = Parameters()
    assert parameters.filled(Limits) == Limits() == Limits(3, 50.0, 5)
    parameters.set_for_test("anal_jobbroker", "CAP_MC", 9)
    parameters.set_for_test("jobbroker", "PART", 2.5)
    assert parameters.filled(Limits, names={SHARE: "MC"}, components=("anal_jobbroker",)) == Limits(9, 50.0, 5)


async def test_parameters_are_read_again_when_their_version_changes(database: Database) -> None:
    parameters = Parameters()
    insert = "INSERT INTO parameters (component, key, value, type, vo) VALUES ($1, $2, $3, $4, $5)"
    async with database.read() as connection:
        await connection.execute(insert, "jobbroker", "CAP", "10", "int", "")
        await connection.execute(insert, "jobbroker", "PART", "x", "float", "")
        assert await parameters.refresh(connection)
        assert not await parameters.refresh(connection)
        await connection.execute(insert, "jobbroker", "CAP", "20", "int", "atlas")
        assert not await parameters.refresh(connection), "the version row did not move"
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
        assert await parameters.refresh(connection)
    assert parameters.read(CAP, vo="atlas") == 20
    assert parameters.read(CAP) == 10
    assert parameters.read(PART) == 0.5


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
    assert parameters.filled(GenerationParameters).throttled_retry_s == 30.0
    assert "jobgen.THROTTLED_RETRY_S = 1e+308 ignored, its default applies: allowed: a number from 1" in caplog.text
    own: Parameter[float] = Parameter("plugin", "OWN", 1.0, "", "of a plugin", high=1e309)
    assert parameters.read(own) == 1e308, "what a plugin declares is its own affair"


def test_the_names_for_which_a_key_is_set_are_known_without_asking_for_each() -> None:
    parameter = Parameter("watchdog", "RATE", None, "%", "for a test", kind="float", suffixes=("<label>",))
    parameters = Parameters()
    for key, vo in (("RATE", None), ("RATE_b", None), ("RATE_a_x", None), ("RATE_c", "wlcg"), ("RATES", None)):
        parameters.set_for_test("watchdog", key, 5, vo=vo)
    parameters.set_for_test("jedi", "RATE_d", 5)
    assert parameters.names_of(parameter) == ["a_x", "b"]
