"""What may be set as a runtime parameter, and what is refused."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from services.cli.demo.profiles import PROFILES
from services.task_definition.desk.policy.setting import InvalidSetting, setting_of
from shared.config.declared import declared_parameters

DECLARED = declared_parameters()


@pytest.mark.parametrize("parameter", DECLARED, ids=lambda one: one.names[0])
def test_each_default_is_a_value_that_may_be_set(parameter) -> None:
    assert parameter.means and parameter.names
    if parameter.default is not None and parameter.kind != "json":
        assert parameter.parsed(str(parameter.default)) == parameter.default


def test_what_the_demo_sets_may_be_set() -> None:
    for profile in PROFILES.values():
        for name, value in profile.parameters.items():
            component, _, key = name.partition(".")
            assert setting_of(component, key, value, None, None, new=False).text


@pytest.mark.parametrize(
    ("component", "key", "value", "stored"),
    [
        ("taskbrokerage", "DISK_THRESHOLD", "7", ("jedi", "7", "float")),
        ("watchdog", "WAIT_FOR_EXHAUSTED_S", "600", ("jedi", "600", "float")),
        ("taskbrokerage", "DISK_THRESHOLD_Express", 7.5, ("jedi", "7.5", "float")),
        ("jobgen", "NFILES_Express", "100", ("jedi", "100", "int")),
        ("prod_job_throttler", "NQUEUELIMIT_Express_MCORE*", "-1", ("jedi", "-1", "int")),
        ("prio_mgr", "CAP_RUNNING_USER_JOBS", "100", ("pandaserver", "100", "float")),
        ("jobgen", "JOB_SUBMISSION", "off", ("jedi", "off", "bool")),
        ("share_correction", "ShareCorrections", {"A": {}}, ("jedi", '{"A":{}}', "json")),
        (
            "order",
            "RUNNING_LIMITS",
            {"*": {"JobType": {"merge": 20}}},
            ("jedi", '{"*":{"JobType":{"merge":20}}}', "json"),
        ),
        ("order", "RUNNING_LIMITS", None, ("jedi", "null", "json")),
        (
            "order",
            "MATCHING_DELAYS",
            {"ALPHA": {"owner = 'ann'": 2.5}},
            ("jedi", '{"ALPHA":{"owner = \'ann\'":2.5}}', "json"),
        ),
        ("order", "CPU_SEGMENTS_S", [600, 7200], ("jedi", "[600,7200]", "json")),
        ("order", "TASK_QUEUES", "within", ("jedi", "within", "str")),
        ("job_dispatch", "REPORTERS", {"Q": ["a"]}, ("jedi", '{"Q":["a"]}', "json")),
        ("job_dispatch", "PILOT_SECRETS", {"Q": "a"}, ("jedi", '{"Q":"a"}', "json")),
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
        ("share_correction", "ShareCorrections", "{", ["'{'", "JSON"]),
        ("share_correction", "ShareCorrections", {"A": 1}, ["ShareCorrections/A: 1 must be an object"]),
        (
            "order",
            "RUNNING_LIMITS",
            {"ALPHA": {"JobType": {"merge": "many"}}},
            ["RUNNING_LIMITS/ALPHA/JobType/merge: 'many' must be a number from 0 to"],
        ),
        (
            "order",
            "RUNNING_LIMITS",
            {"*": {"colour = 'red'": 3}},
            ["RUNNING_LIMITS/*", "colour", "allowed: conditions"],
        ),
        ("order", "RUNNING_LIMITS", [1], ["RUNNING_LIMITS: [1] must be an object"]),
        ("order", "MATCHING_DELAYS", {"*": {"owner = 'ann'": -1}}, ["MATCHING_DELAYS/*", "-1 must be a number"]),
        ("order", "CPU_SEGMENTS_S", [600, 600], ["600 comes after 600", "allowed: null, or a list"]),
        ("order", "CPU_SEGMENTS_S", "600", ["600 is not a list"]),
        ("order", "TASK_QUEUES", "on", ["order.TASK_QUEUES = 'on'", "one of off, within, instead"]),
        ("order", "CONSOLIDATION", "mean", ["one of sum, average"]),
        ("job_dispatch", "REPORTERS", {"Q": "a"}, ["REPORTERS", "Q: 'a'; allowed: null, or an object of lists"]),
        ("job_dispatch", "PILOT_SECRETS", {"Q": ["a"]}, ["Q: ['a']; allowed: null, or an object of subjects"]),
        ("jobbroker", "NQUEUED_SAT_CUP", "5", ["did you mean jobbroker.NQUEUED_SAT_CAP"]),
        ("taskbroker", "NQUEUED_NUC_CAP", "5", ["did you mean taskbrokerage.NQUEUED_NUC_CAP"]),
        ("anal_jobbroker", "CAP_RUNNING_USER_JOBS", "5", ["did you mean prio_mgr.CAP_RUNNING_USER_JOBS"]),
        ("watcher", "HEARTBEAT_TIMEOUT", "5", ["no service reads it"]),
        ("taskrefiner", "AES_EVENTPOOLSIZE", "5", ["taskrefiner.AES_EVENTPOOLSIZE: is not read", "esConvertible or"]),
        ("taskrefiner", "AES_NUM_JUMBO_PER_TASK", "2", ["JUMBO_PER_TASK says how many jumbo jobs a task has"]),
        ("taskrefiner", "USER_TASKS_MESSAGE_DRIVEN_PERCENT", "5", ["is not read by this version", "for every task"]),
        ("taskrefiner", "USER_TASKS_PUSH_STATUS_CHANGES_PERCENT", "5", ["told by events at once, for every task"]),
        ("taskrefiner", "PROD_TASKS_PUSH_STATUS_CHANGES_PERCENT", "5", ["told by events at once, for every task"]),
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


@pytest.mark.parametrize(
    ("component", "key", "value", "is_read"),
    [
        ("order", "TASK_QUEUES", "within", True),
        ("prio_mgr", "CAP_RUNNING_USER_JOBS", 5, True),
        ("share_correction", "ShareCorrections", None, True),
        ("order", "RECALCULATE_S", 60, False),
        ("watcher", "HEARTBEAT_TIMEOUT_production", 1, False),
    ],
)
def test_a_value_for_one_vo_is_taken_where_it_is_read(component: str, key: str, value: object, is_read: bool) -> None:
    if is_read:
        setting_of(component, key, value, None, None, new=False, vo="atlas")
    else:
        with pytest.raises(InvalidSetting, match="is read for all VOs together"):
            setting_of(component, key, value, None, None, new=False, vo="atlas")


def test_a_key_of_a_plugin_is_taken_with_the_type_that_is_stated_or_seen() -> None:
    assert setting_of("my_plugin", "FACTOR", 2.5, None, None, new=True).kind == "float"
    assert setting_of("my_plugin", "FACTOR", "2", "int", "mine", new=True).app == "mine"
    with pytest.raises(InvalidSetting, match="not of type int"):
        setting_of("my_plugin", "FACTOR", "two", "int", None, new=True)
    with pytest.raises(InvalidSetting, match="allowed: str, int"):
        setting_of("my_plugin", "FACTOR", "two", "tensor", None, new=True)


@pytest.mark.parametrize(
    "parameter", [one for one in DECLARED if one.kind in ("int", "float")], ids=lambda one: one.key
)
def test_every_number_has_a_range_and_its_ends_make_no_date_leave_the_calendar(parameter) -> None:
    assert -1e10 < parameter.low < parameter.highest <= 1e12
    with pytest.raises(
        ValueError, match=f"from {re.escape(parameter.allowed.partition(' from ')[2].partition(' ')[0])} to"
    ):
        parameter.parsed("1e308" if parameter.kind == "float" else str(10**30))
    seconds = {"s": 1.0, "h": 3600.0, "days": 86_400.0}.get(parameter.unit)
    if seconds is not None:
        now = datetime(2026, 3, 1, tzinfo=UTC)
        span = timedelta(seconds=parameter.highest * seconds)
        assert now - span < now + span
