"""The list of runtime parameters against what the services read, and what may be set."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from services.cli.demo.profiles import PROFILES
from services.job_brokerage import request as job_brokerage
from services.job_generation import settings as job_generation
from services.jumbo_watchdog.handlers import JumboWatchdog
from services.share_correction.handlers import ShareCorrection
from services.task_brokerage import request as task_brokerage
from services.task_definition.data import Data
from services.task_definition.policy.setting import InvalidSetting, setting_of
from services.watchdog.limits import WatchLimits
from shared.config.known import find_parameter
from shared.config.known_parameters import KNOWN
from shared.config.parameters import Parameters

ROOT = Path(__file__).resolve().parents[3]
# Keys in the text of services that take them from a `Parameters` by name.
READING = re.compile(
    r'(?:\bget|number|own|limit)\(\s*(?:COMPONENT|"[a-z_]+"|component)?,?\s*f?"([A-Za-z_]{4,})(?:_\{\w+\})?"'
)


class Recording(Parameters):
    """Nothing is set; what is asked for is remembered with its default."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[tuple[str, str, str], Any] = {}

    def get(self, component: str, key: str, *, app: str = "jedi", vo: str | None = None, default: Any) -> Any:
        self.asked[app, component, key.removesuffix("_")] = (
            default  # a family asked for the empty name is the key alone
        )
        return default


def everything_read() -> dict[tuple[str, str, str], Any]:
    """What the functions ask that turn parameters into limits."""
    asked = Recording()
    task_brokerage.limits_from(asked, vo="atlas", gshare="Test")
    for is_analysis in (False, True):
        job_brokerage.limits_from(asked, vo="atlas", is_analysis=is_analysis, gshare="Test", cloud="US")
        job_brokerage.analysis_limits_from(asked, vo="atlas", is_group=is_analysis)
        for resource_type in ("SCORE", "MCORE_HIMEM"):
            job_generation.throttle_limits(asked, "Test", resource_type, analysis=is_analysis)
    job_generation.generation_parameters(asked, "Test")
    job_generation.scout_parameters(asked)
    limits = WatchLimits(asked)
    limits.jobs(["ARC"])
    limits.pending()
    limits.rebrokerage(["Test"])
    for name, member in vars(WatchLimits).items():
        if isinstance(member, property):
            getattr(limits, name)
    JumboWatchdog(None, asked).limits()  # type: ignore[arg-type]
    ShareCorrection(None, asked, lambda name: None)._correctors()  # type: ignore[arg-type, return-value]
    Data(None, asked, random.Random(1))._speed()  # type: ignore[arg-type]
    return asked.asked


READ = everything_read()


@pytest.mark.parametrize("name", sorted(READ), ids=".".join)
def test_each_parameter_that_is_read_is_known_with_its_application_type_and_default(name) -> None:
    app, component, key = name
    known = find_parameter(KNOWN, component, key)
    assert known is not None and known.app == app
    asked = READ[name]
    assert {bool: "bool", int: "int", float: "float"}.get(type(asked), "json") == known.kind
    if known.default is not None and key == known.key and component != "anal_jobbroker":
        assert asked == known.default


def test_every_key_in_the_text_of_the_services_is_known() -> None:
    keys = {one.key for one in KNOWN}
    found = {}
    for path in sorted((ROOT / "services").rglob("*.py")):
        text = path.read_text()
        if "Parameters" in text and "cli" not in path.parts:
            found |= {key: path.name for key in READING.findall(text) if key.upper() == key}
    assert len(found) > 60
    assert {key: place for key, place in found.items() if key not in keys} == {}


@pytest.mark.parametrize("parameter", KNOWN, ids=lambda one: one.names[0])
def test_each_default_is_a_value_that_may_be_set(parameter) -> None:
    assert parameter.meaning and parameter.names
    if parameter.default is not None and parameter.kind != "json":
        assert parameter.checked(str(parameter.default)) == parameter.default


def test_no_name_is_in_the_list_twice() -> None:
    names = [name for one in KNOWN for name in one.names]
    assert sorted(set(names)) == sorted(names)


def test_what_the_demo_sets_may_be_set() -> None:
    for profile in PROFILES.values():
        for name, value in profile.parameters.items():
            component, _, key = name.partition(".")
            assert setting_of(component, key, value, None, None, new=False).text


@pytest.mark.parametrize(
    ("component", "key", "value", "stored"),
    [
        ("taskbrokerage", "DISK_THRESHOLD", "7", ("jedi", "7", "float")),
        ("taskbrokerage", "DISK_THRESHOLD_Express", 7.5, ("jedi", "7.5", "float")),
        ("jobgen", "NFILES_Express", "100", ("jedi", "100", "int")),
        ("prod_job_throttler", "NQUEUELIMIT_Express_MCORE*", "-1", ("jedi", "-1", "int")),
        ("prio_mgr", "CAP_RUNNING_USER_JOBS", "100", ("pandaserver", "100", "float")),
        ("jobgen", "JOB_SUBMISSION", "off", ("jedi", "off", "bool")),
        ("share_correction", "WMSHistory", {"A": 1}, ("jedi", '{"A":1}', "json")),
    ],
)
def test_a_known_parameter_is_stored_with_the_type_and_application_that_are_read(component, key, value, stored) -> None:
    setting = setting_of(component, key, value, "str", None, new=False)
    assert (setting.app, setting.text, setting.kind) == stored


@pytest.mark.parametrize(
    ("component", "key", "value", "told"),
    [
        (
            "taskbrokerage",
            "DISK_THRESHOLD",
            "plenty",
            ["taskbrokerage.DISK_THRESHOLD = 'plenty'", "a number from 0 to 1,000,000 (TB)"],
        ),
        (
            "taskbrokerage",
            "DISK_THRESHOLD_Express",
            "-1",
            ["DISK_THRESHOLD_Express = '-1'", "a number from 0 to 1,000,000 (TB)"],
        ),
        ("taskbrokerage", "INPUT_SIZE_FRACTION", "101", ["'101'", "a number from 0 to 100 (%)"]),
        ("jobgen", "NFILES_Express", "2.5", ["'2.5'", "a whole number from 1 to 50000"]),
        ("jobgen", "JOB_SUBMISSION", "maybe", ["'maybe'", "true or false"]),
        ("jobbroker", "NW_THRESHOLD", "nan", ["'nan'", "a number from 0 to 1,000,000"]),
        ("share_correction", "WMSHistory", "{", ["'{'", "JSON"]),
        ("jobbroker", "NQUEUED_SAT_CUP", "5", ["did you mean jobbroker.NQUEUED_SAT_CAP"]),
        ("taskbroker", "NQUEUED_NUC_CAP", "5", ["did you mean taskbrokerage.NQUEUED_NUC_CAP"]),
        ("anal_jobbroker", "CAP_RUNNING_USER_JOBS", "5", ["did you mean prio_mgr.CAP_RUNNING_USER_JOBS"]),
        ("watcher", "HEARTBEAT_TIMEOUT", "5", ["no service reads it"]),
        ("zz", "qq", "5", ["zz.qq: no service reads it (new:"]),
    ],
)
def test_a_refusal_names_the_parameter_its_value_and_what_is_allowed(component, key, value, told) -> None:
    with pytest.raises(InvalidSetting) as refusal:
        setting_of(component, key, value, None, None, new=False)
    assert [part for part in told if part not in str(refusal.value)] == []


def test_a_parameter_set_for_the_application_that_does_not_read_it_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="is read with app pandaserver"):
        setting_of("watcher", "HEARTBEAT_TIMEOUT_production", "1", None, "jedi", new=False)


def test_a_key_of_a_plugin_is_taken_with_the_type_that_is_stated_or_seen() -> None:
    assert setting_of("my_plugin", "FACTOR", 2.5, None, None, new=True).kind == "float"
    assert setting_of("my_plugin", "FACTOR", "2", "int", "mine", new=True).app == "mine"
    with pytest.raises(InvalidSetting, match="not of type int"):
        setting_of("my_plugin", "FACTOR", "two", "int", None, new=True)
    with pytest.raises(InvalidSetting, match="allowed: str, int"):
        setting_of("my_plugin", "FACTOR", "two", "tensor", None, new=True)


@pytest.mark.parametrize("parameter", [one for one in KNOWN if one.kind in ("int", "float")], ids=lambda one: one.key)
def test_every_number_has_a_range_and_its_ends_make_no_date_leave_the_calendar(parameter) -> None:
    assert -1e10 < parameter.least < parameter.highest <= 1e12
    with pytest.raises(
        ValueError, match=f"from {re.escape(parameter.allowed.partition(' from ')[2].partition(' ')[0])} to"
    ):
        parameter.checked("1e308" if parameter.kind == "float" else str(10**30))
    seconds = {"s": 1.0, "h": 3600.0, "days": 86_400.0}.get(parameter.unit)
    if seconds is not None:
        now = datetime(2026, 3, 1, tzinfo=UTC)
        span = timedelta(seconds=parameter.highest * seconds)
        assert now - span < now + span
