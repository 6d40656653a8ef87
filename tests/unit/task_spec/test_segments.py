"""What segmentSpecs asks of the rest of a task's definition."""

from __future__ import annotations

from typing import Any

import pytest

from services.task_definition.tasks.policy.definition_plan import DefinitionFacts, DefinitionRefused, Refined
from services.task_definition.tasks.policy.refine import refine
from services.task_definition.tasks.policy.task_spec import parse_task
from shared.catalogue.port import DatasetFacts
from tests.handlers.task_definition.world import an_input, output, production
from tests.unit.task_spec.refusals import sentences_of

SEGMENTS = [{"name": "arms", "files": ["f1", "f3"], "id": 0}, {"name": "legs", "files": ["f2"], "id": 1}]


def segmented(segments: Any = SEGMENTS, **changes: Any) -> dict[str, Any]:
    return production(segmentSpecs=segments, segmentedWork=True, **{"nFilesPerJob": None, **changes})


def test_the_files_of_segments_are_read_in_their_order_and_jobs_cross_no_border() -> None:
    spec = parse_task(segmented())
    assert spec.split_rule()["groupBoundaryID"] == 1
    assert parse_task(segmented(groupBoundaryID=3)).split_rule()["groupBoundaryID"] == 3
    plan = refine(spec, 1, DefinitionFacts({"mc.evnt": DatasetFacts("mc.evnt", "mc", "dataset", "frozen", 3, 30, 3)}))
    assert isinstance(plan, Refined)
    assert (plan.inputs[0].names, plan.inputs[0].boundaries) == (("f1", "f3", "f2"), (1, 1, 2))


def test_segments_lie_in_one_dataset() -> None:
    given = segmented(jobParameters=[an_input("mc.all/")])
    facts = {name: DatasetFacts(name, "mc", "dataset", "frozen", 3, 30, 3) for name in ("mc.a", "mc.b")}
    facts["mc.all"] = DatasetFacts("mc.all", "mc", "container", "frozen", constituents=("mc.a", "mc.b"))
    outcome = refine(parse_task(given), 1, DefinitionFacts(facts))
    assert isinstance(outcome, DefinitionRefused) and "mc.a, mc.b; allowed: one dataset" in outcome.reason


@pytest.mark.parametrize(
    ("segments", "told"),
    [
        ([*SEGMENTS, {"name": "arms", "files": ["f9"], "id": 2}], "'arms' is there 2 times; allowed: names"),
        ([*SEGMENTS, {"name": "body", "files": ["f9"], "id": 1}], "'1' is there 2 times; allowed: ids"),
        ([*SEGMENTS, {"name": "body", "files": ["f2"], "id": 2}], "'f2' is there 2 times; allowed: files"),
        ([*SEGMENTS, {"name": "body", "files": ["f9"]}], "some segments have an id; allowed: all or none"),
    ],
)
def test_names_ids_and_files_of_segments_are_there_once(segments: Any, told: str) -> None:
    assert told in sentences_of(segmented(segments))["segmentSpecs"]


def test_an_unknown_field_of_a_segment_lists_those_of_a_segment() -> None:
    found = sentences_of(segmented([{"name": "arms", "dataset": "mc.evnt", "files": ["f1"]}]))
    assert found["segmentSpecs.0.dataset"] == "'mc.evnt' unknown field; allowed: name, files, id"
    found = sentences_of(segmented([{"nam": "arms", "files": ["f1"]}]))
    assert found["segmentSpecs.0.nam"] == "'arms' unknown field; did you mean name? allowed: name, files, id"


def test_a_segment_of_whole_datasets_is_refused_with_what_is_taken() -> None:
    found = sentences_of(segmented([{"name": "arms", "datasets": ["mc.evnt"]}]))
    assert "not taken by this version: a segment lists its files" in found["segmentSpecs.0.datasets"]


@pytest.mark.parametrize(
    ("field", "value"), [("respectLB", True), ("addNthFieldToLFN", "2"), ("mergeOutput", True), ("nEventsPerWorker", 5)]
)
def test_what_would_join_segments_is_not_allowed_beside_them(field: str, value: Any) -> None:
    assert "segmentSpecs" in sentences_of(segmented(**{field: value}))[field]


def test_segmented_work_needs_its_segments_and_they_an_input() -> None:
    assert "needs segmentSpecs" in sentences_of(production(segmentedWork=True))["segmentedWork"]
    inputs = [an_input("mc.a,mc.b"), output("o")]
    assert "one dataset" in sentences_of(segmented(jobParameters=inputs))["segmentSpecs"]


@pytest.mark.parametrize("name", ["SEGMENT_NAME", "SEGMENT_ID"])
def test_placeholders_of_segments_need_them(name: str) -> None:
    items = [an_input(), {"type": "constant", "value": f"${{{name}}}"}]
    assert name in sentences_of(production(jobParameters=items))["jobParameters.1.value"]
    assert parse_task(segmented(jobParameters=items))
