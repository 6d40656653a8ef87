"""What loadXML asks of the rest of a task's definition."""

from __future__ import annotations

from typing import Any

import pytest

from services.task_definition.tasks.policy import job_xml
from services.task_definition.tasks.policy.definition_plan import DefinitionFacts, DefinitionRefused, Refined
from services.task_definition.tasks.policy.refine import refine
from services.task_definition.tasks.policy.task_spec import parse_task
from shared.catalogue.port import DatasetFacts
from tests.handlers.task_definition.world import an_input, output, production
from tests.unit.task_spec.refusals import sentences_of

JOBS = """<submission><command>run.sh</command><output>hist.root</output>
  <job><inds><name>mc.evnt</name><file>b</file><file>a</file></inds>
       <inds><name>mc.minbias</name><file>m</file></inds></job>
  <job><inds><name>mc.evnt</name><file>c</file></inds></job></submission>"""
MINBIAS = an_input("mc.minbias", "MINBIAS", hidden=True)


def described(text: str = JOBS, *more: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A task of these jobs, with one output item for what they write."""
    items = [
        an_input(),
        MINBIAS,
        output("hists", hidden=True),
        {"type": "constant", "value": "-o ${XML_OUTMAP} -p ${XML_EXESTR}"},
        *more,
    ]
    return production(jobParameters=items, loadXML=text, **{"nFilesPerJob": None, **changes})


def facts(*names: str, container: str | None = None) -> DefinitionFacts:
    found = {name: DatasetFacts(name, "mc", "dataset", "frozen", 3, 3000, 300) for name in names}
    if container is not None:
        found[container] = DatasetFacts(container, "mc", "container", "frozen", constituents=names)
    return DefinitionFacts(found)


def test_each_job_has_a_boundary_that_is_not_split_and_there_are_no_scouts() -> None:
    rules = parse_task(described()).split_rule()
    assert (rules["groupBoundaryID"], rules["skipScout"]) == (4, True) and "loadXML" not in rules


def test_files_are_read_in_the_order_of_the_jobs_with_their_boundaries() -> None:
    plan = refine(parse_task(described()), 1, facts("mc.evnt", "mc.minbias"))
    assert isinstance(plan, Refined)
    master, second = plan.inputs
    assert (master.names, master.boundaries) == (("b", "a", "c"), (1, 1, 2))
    assert (second.names, second.boundaries, second.files_per_master_file) == (("m",), (1,), None)


@pytest.mark.parametrize(
    ("in_container", "named", "told"),
    [
        (("mc.one",), "mc.all", ""),
        (("mc.one", "mc.two"), "mc.all", "loadXML names container mc.all: its files are in 2 datasets"),
    ],
)
def test_a_container_stands_for_the_one_dataset_in_it(in_container: tuple[str, ...], named: str, told: str) -> None:
    text = f"<submission><command>run</command><job><inds><name>{named}</name><file>a</file></inds></job></submission>"
    given = described(text)
    given["jobParameters"] = [an_input("mc.all/"), *given["jobParameters"][3:]]
    outcome = refine(parse_task(given), 1, facts(*in_container, container="mc.all"))
    if told:
        assert isinstance(outcome, DefinitionRefused) and told in outcome.reason
    else:
        assert isinstance(outcome, Refined) and outcome.inputs[0].names == ("a",)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nFiles", 3), ("nEvents", 100), ("nFilesPerJob", 2), ("nEventsPerJob", 10), ("tgtNumEventsPerJob", 10),
        ("respectLB", True), ("orderByLB", True), ("skipFilesUsedBy", [7]), ("runUntilClosed", True),
        ("mergeOutput", True), ("groupBoundaryID", 3), ("nEventsPerWorker", 10),
    ],
)  # fmt: skip
def test_what_would_cut_or_choose_the_input_otherwise_is_not_allowed_beside_it(field: str, value: Any) -> None:
    assert "loadXML" in sentences_of(described(**{field: value}))[field]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<submission>", "'<submission>' it is not XML"),
        (JOBS.replace("mc.minbias", "mc.other"), "'mc.other' is a dataset that no item names; allowed: datasets of"),
        (
            JOBS.replace("<command>", '<inds primary="true"><name>mc.minbias</name></inds><command>', 1),
            "'mc.minbias' is primary; allowed: the dataset of the first input, mc.evnt",
        ),
        (JOBS.replace("mc.evnt</name><file>c</file>", "mc.minbias</name><file>n</file>"),
         "'job 2' names no file of mc.evnt; allowed: one or more"),
        (JOBS.replace("hist.root", "a/b"), "'job 1' writes 'a/b' under a name that ends with '.a/b'"),
        (JOBS.replace("hist.root", "x" * 250), "under a name of more than 250 characters"),
    ],
)  # fmt: skip
def test_xml_that_does_not_fit_the_task_is_refused_with_field_value_and_what_is_allowed(text: str, told: str) -> None:
    assert told in sentences_of(described(text))["loadXML"]


def test_names_of_what_all_jobs_write_are_judged_once_for_each_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def is_good(name: str) -> bool:
        asked.append(name)
        return name != "tag.x.own"

    monkeypatch.setattr(job_xml, "is_catalogue_name", is_good)
    job = "<job><inds><name>mc.evnt</name><file>f{0}</file></inds>{1}</job>"
    option = '<option name="tag.x" prepend="true"></option>'
    jobs = [job.format(n, option * (n > 2)) for n in range(5)]
    last = job.format(5, option + "<output>own</output>")
    text = f"<submission><command>r</command><output>a</output><output>b</output>{''.join(jobs)}{last}</submission>"
    assert "'job 6' writes 'own' under" in sentences_of(described(text))["loadXML"]
    assert asked == ["a", "b", "tag.x.a", "tag.x.b", "tag.x.own"]


def test_outputs_are_named_by_the_jobs_and_not_by_the_command_line() -> None:
    given = described()
    given["jobParameters"][2] = output("hists")
    assert "use ${XML_OUTMAP}" in sentences_of(given)["jobParameters.2.hidden"]
    assert "one, for all" in sentences_of(described(JOBS, output("more", hidden=True)))["jobParameters"]
    assert (
        "OUTPUT0" in sentences_of(described(JOBS, {"type": "constant", "value": "${OUTPUT0}"}))["jobParameters.4.value"]
    )


@pytest.mark.parametrize("name", ["XML_OUTMAP", "XML_EXESTR"])
def test_placeholders_of_the_xml_need_it(name: str) -> None:
    items = [an_input(), {"type": "constant", "value": f"${{{name}}}"}]
    assert name in sentences_of(production(jobParameters=items))["jobParameters.1.value"]
