"""Parameters of the event service: what each decides, and what contradicts them."""

from __future__ import annotations

from typing import Any

import pytest

from services.task_definition.tasks.policy.outputs import command_lines
from services.task_definition.tasks.policy.task_spec import parse_task
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from shared.task.in_effect import rules_of
from tests.handlers.task_definition.world import production


@pytest.mark.parametrize(
    ("name", "value", "field", "found"),
    [
        ("nEventsPerWorker", 20, "events_per_range", 20),
        ("nEsConsumers", 3, "n_consumers", 3),
        ("nSitesPerJob", 2, "n_sites_per_job", 2),
        ("maxAttemptES", 4, "range_attempts", 4),
        ("maxAttemptEsJob", 5, "consumer_attempts", 5),
        ("notDiscardEvents", True, "keeps_processed_events", True),
        ("decAttOnFailedES", True, "attempts_only_of_failed", True),
        ("resurrectConsumers", True, "resurrects_consumers", True),
        ("inFilePosEvtNum", True, "numbers_within_files", True),
        ("fineGrainedProc", True, "is_fine_grained", True),
        ("mergeEsOnOS", True, "merges_at_store", True),
    ],
)
def test_a_parameter_is_a_rule_of_job_generation(name: str, value: Any, field: str, found: Any) -> None:
    rules = rules_of(parse_task(production(**{"nEventsPerWorker": 10, name: value})).split_rule())
    assert getattr(rules, field) == found
    assert getattr(rules_of(parse_task(production(nEventsPerWorker=10)).split_rule()), field) != found


@pytest.mark.parametrize(
    ("given", "n_events"),
    [
        ({}, None),
        ({"nEventsPerWorker": 10}, 10),
        ({"esConvertible": True}, 1),
        ({"esFraction": 1.0, "nEventsPerWorker": 10}, 10),
        ({"esFraction": 0.0, "nEventsPerWorker": 10}, None),
    ],
)
def test_which_tasks_use_the_event_service(given: dict[str, Any], n_events: int | None) -> None:
    spec = parse_task(production(**given))
    assert spec.columns()["event_service"] == int(n_events is not None)
    assert spec.split_rule().get("nEventsPerWorker") == n_events


@pytest.mark.parametrize(
    ("given", "column", "copies"),
    [
        ({}, 0, 1),
        ({"useJobCloning": "runonce"}, 3, 2),
        ({"useJobCloning": "storeonce", "nEsConsumers": 3}, 3, 3),
        ({"useJobCloning": "runonce", "nEsConsumers": 2, "nSitesPerJob": 2}, 3, 4),
    ],
)
def test_use_job_cloning_makes_copies_of_each_job(given: dict[str, Any], column: int, copies: int) -> None:
    spec = parse_task(production(**given))
    rules = rules_of(spec.split_rule(), event_service=spec.columns()["event_service"])
    assert (spec.columns()["event_service"], rules.jobs_for_input, rules.uses_event_service) == (column, copies, False)
    assert rules.cloning == given.get("useJobCloning")


@pytest.mark.parametrize("name", ["nEsConsumers", "nSitesPerJob", "nJumboJobs"])
def test_with_fine_grained_proc_one_job_has_all_events(name: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        parse_task(production(nEventsPerWorker=10, fineGrainedProc=True, **{name: 2}))
    assert [one.field for one in refused.value.problems] == [name]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"useJobCloning": "often"}, "useJobCloning"),
        ({"useJobCloning": "runonce", "nEventsPerWorker": 10}, "useJobCloning"),
        ({"useJobCloning": "runonce", "nJumboJobs": 1}, "nJumboJobs"),
        ({"useJobCloning": "runonce", "mergeOutput": True}, "mergeOutput"),
    ],
)
def test_what_contradicts_job_cloning_is_refused_by_name(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        parse_task(production(**given))
    assert [one.field for one in refused.value.problems] == [field]


def test_es_fraction_is_the_part_of_tasks_that_use_it() -> None:
    drawn = [parse_task(production(f"task.{n}", esFraction=0.25)).columns()["event_service"] for n in range(400)]
    assert 60 <= sum(drawn) <= 140  # 100 expected; the draw of each name is fixed


def test_esmerge_spec_is_the_command_line_of_merge_jobs() -> None:
    merge = {"transPath": "EVNTMerge_tf.py", "jobParameters": "--in=${TRN_OUTPUT0} --out=${OUTPUT0}"}
    lines = command_lines(parse_task(production(nEventsPerWorker=10, **{"esmergeSpec": merge})), 9)
    assert (lines["es_merge"], lines["es_merge_trans_path"]) == (merge["jobParameters"], merge["transPath"])


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"nEsConsumers": 2}, "nEsConsumers"),
        ({"notDiscardEvents": True}, "notDiscardEvents"),
        ({"nEventsPerWorker": 10, "mergeOutput": True}, "mergeOutput"),
        ({"nEventsPerWorker": 0}, "nEventsPerWorker"),
        ({"esFraction": 1.5}, "esFraction"),
    ],
)
def test_what_contradicts_the_event_service_is_refused_by_name(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        parse_task(production(**given))
    assert [one.field for one in refused.value.problems] == [field]


def test_tags_in_the_command_line_say_how_merge_jobs_are_run() -> None:
    task = production(nEventsPerWorker=10)
    merge = "<PANDA_ESMERGE_TRF>M_tf.py</PANDA_ESMERGE_TRF><PANDA_ESMERGE_JOBP>--of=$JEDITASKID</PANDA_ESMERGE_JOBP>"
    task["jobParameters"] = [*task["jobParameters"], {"type": "constant", "value": merge}]
    lines = command_lines(parse_task(task), 9)
    assert (lines["es_merge"], lines["es_merge_trans_path"]) == ("--of=9", "M_tf.py")
    assert "es_merge" not in command_lines(parse_task(production(nEventsPerWorker=10)), 9)
