"""Verbs of runtime parameters: set, shown, listed, given back."""

import json
import re


def test_a_parameter_is_set_with_the_type_its_value_looks_like(services, orrery):
    services.says("config/set", {})
    for text, kind in (("5", "int"), ("0.5", "float"), ("true", "bool"), ("[1]", "json"), ("five", "str")):
        assert orrery("config", "set", "watchdog.SWEEP_AGE_S", text).code == 0
        assert services.asked("config/set")[-1]["type"] == kind
    assert orrery("config", "set", "nodot", "5").code == 2
    assert orrery("config", "set", "a.b", "5", "--type", "tensor").code == 2


def test_a_key_that_only_a_plugin_reads_is_said_to_be_new(services, orrery):
    services.says("config/set", {}, message="my.FACTOR = 2 (int)")
    assert "my.FACTOR = 2 (int)" in orrery("config", "set", "my.FACTOR", "2", "--new").out
    assert services.asked("config/set") == [
        {"component": "my", "key": "FACTOR", "value": "2", "type": "int", "new": True}
    ]


def test_a_refused_parameter_is_told_with_its_problem(services, orrery):
    problem = {"field": "jobbroker.NW_THRESHOLD", "value": "'x'", "allowed": "a number from 0"}
    services.answers["config/set"] = (200, {"success": False, "message": "no", "data": 5, "problems": [problem]})
    outcome = orrery("config", "set", "jobbroker.NW_THRESHOLD", "x")
    assert outcome.code == 1 and "jobbroker.NW_THRESHOLD: value 'x': a number from 0" in outcome.err


def test_a_parameter_gets_its_default_again(services, orrery):
    services.says("config/unset", {}, message="jobbroker.NW_THRESHOLD has its default again")
    assert "default again" in orrery("config", "unset", "jobbroker.NW_THRESHOLD", "--vo", "atlas").out
    assert services.asked("config/unset") == [{"component": "jobbroker", "key": "NW_THRESHOLD", "vo": "atlas"}]


def test_all_parameters_are_listed_with_defaults_and_what_was_set(services, orrery):
    row = {"app": "jedi", "vo": None, "type": "float"}
    services.says(
        "config/list",
        [
            row | {"component": "taskbrokerage", "key": "DISK_THRESHOLD", "value": "7"},
            row | {"component": "taskbrokerage", "key": "DISK_THRESHOLD_Express", "value": "9"},
        ],
    )
    rows = {one["name"]: one for one in json.loads(orrery("config", "list", "taskbrokerage", "--all", "--json").out)}
    threshold = rows["taskbrokerage.DISK_THRESHOLD"]
    assert (threshold["value"], threshold["default"], threshold["unit"]) == ("7", 5.0, "TB")
    assert rows["taskbrokerage.RETRY_S"]["value"] is None and rows["taskbrokerage.RETRY_S"]["meaning"]
    assert rows["taskbrokerage.DISK_THRESHOLD_Express"]["value"] == "9"
    assert "space that a nucleus must have left" in orrery("config", "list", "--all").out


def test_a_default_of_a_name_of_its_own_is_listed_and_shown(services, orrery):
    services.says("config/list", [])
    listed = json.loads(orrery("config", "list", "dbproxy", "--all", "--json").out)
    defaults = {one["name"]: one["default"] for one in listed}
    short = [f"dbproxy.SCOUT_{key}" for key in ("NUM_SHORT", "SHORT_EXECTIME", "THR_SHORT")]
    assert [defaults[f"{name}_user"] for name in short] == [5, 4, 1000]
    assert [defaults[name] for name in short] == [5, 0, 1000]
    services.says("config/get", None)
    assert json.loads(orrery("config", "get", f"{short[1]}_user", "--json").out)["default"] == 4


def test_a_parameter_that_is_not_set_is_shown_with_its_default_and_an_unknown_one_with_the_name_that_was_meant(
    services, orrery
):
    services.says("config/get", None)
    outcome = orrery("config", "get", "taskbrokerage.RETRY_S")
    assert outcome.code == 0 and "1800" in outcome.out and "from 1 to 315,360,000 (s)" in outcome.out
    assert json.loads(orrery("config", "get", "taskbrokerage.RETRY_S", "--json").out)["value"] is None
    outcome = orrery("config", "get", "taskbrokerage.RETRYS")
    assert outcome.code == 1 and "did you mean taskbrokerage.RETRY_S" in outcome.err


def test_a_parameter_is_set_to_a_negative_number_and_an_unknown_option_is_refused(services, orrery):
    services.says("config/set", {})
    assert orrery("config", "set", "prod_job_throttler.NQUEUECAP", "-1", "--vo", "atlas").code == 0
    (asked,) = services.asked("config/set")
    assert (asked["value"], asked["vo"]) == ("-1", "atlas")
    assert orrery("config", "set", "prod_job_throttler.NQUEUECAP", "5", "--nonsense").code == 2


def test_a_parameter_has_one_shape_set_or_not_as_text_and_as_json(services, orrery):
    row = {"app": "jedi", "component": "taskbrokerage", "key": "RETRY_S", "vo": None, "value": "60", "type": "float",
           "description": "", "changed_at": "2026-03-01T12:00:00Z", "changed_by": "ann"}  # fmt: skip
    services.says("config/get", row)
    is_set, text = (
        json.loads(orrery("config", "get", "taskbrokerage.RETRY_S", "--json").out),
        orrery("config", "get", "taskbrokerage.RETRY_S").out,
    )
    services.says("config/get", None)
    unset = json.loads(orrery("config", "get", "taskbrokerage.RETRY_S", "--json").out)
    assert list(is_set) == list(unset)
    assert (is_set["set"], is_set["value"], is_set["default"]) == (True, "60", unset["default"])
    assert (unset["set"], unset["value"]) == (False, None)
    assert re.search(r"name +taskbrokerage.RETRY_S", text) and re.search(r"default +1,?800", text) and "60" in text
