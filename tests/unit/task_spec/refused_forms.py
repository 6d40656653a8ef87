"""Forms of tasks that are refused: each parameter with values that it cannot have, and what contradicts itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from services.task_definition.tasks.policy.task_parameters.refused import REFUSED, REFUSED_OF_ITEMS
from services.task_definition.tasks.policy.task_parameters.table import FACTS
from services.task_definition.tasks.policy.task_spec import parse_task
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from services.task_definition.tasks.submitting.rights import rights_missing
from shared.auth import Caller
from tests.handlers.task_definition.world import an_input, log, output, production

Form = dict[str, Any]
_XML = (
    "<submission><command>run.sh</command><output>{name}</output>"
    "<job><inds><name>{dataset}</name><file>a</file></inds></job></submission>"
)
#: values of every type; what a parameter takes is left out of the table
VALUES: tuple[Any, ...] = ("some text", "x" * 20_001, -3, 0, 10**13, 2.5, True, ["a"], {"a": 1})
#: what is decided by several parameters, or by an item: name of the case -> changes of a task that is right
BETWEEN: dict[str, Form] = {
    "nothing at all": dict.fromkeys(production()),
    "an unknown parameter": {"nFilesPerJobs": 3, "somethingElse": 1},
    "units that nobody knows": {
        "ramCount": 1, "ramUnit": "acres", "outDiskCount": 1, "outDiskUnit": "acres", "workDiskCount": 1,
        "workDiskUnit": "acres", "cpuTime": 1, "cpuTimeUnit": "acres", "ioIntensity": 1, "ioIntensityUnit": "acres",
        "diskIO": 1, "diskIOUnit": "acres", "mergeRamCount": 1, "mergeRamUnit": "acres",
    },
    "units of a malformed form": {"nFiles": "many", "ramCount": 1, "ramCountUnit": "acres"},
    "a malformed form that contradicts itself": {
        "nFiles": "many", "coreCount": 8, "maxCoreCount": 4, "maxAttempt": "often", "maxFailure": 3,
        "skipShortInput": True, "jobParameters": [{"type": "template"}, {"type": "sample"}, output("a", value="a b")],
    },
    "two units of memory": {"ramCount": 1, "ramUnit": "MB", "ramCountUnit": "GB"},
    "an architecture": {"architecture": {"unknown": 1}},
    "a name of the task": {"taskName": "a b\tc"},
    "cores": {"coreCount": 8, "maxCoreCount": 4},
    "attempts": {"maxAttempt": 2, "maxFailure": 3},
    "files of a job": {"nFilesPerJob": 9, "nMaxFilesPerJob": 3},
    "boundaries that grow": {"groupBoundaryID": 3, "runUntilClosed": True},
    "short input": {"skipShortInput": True},
    "short output": {"skipShortOutput": True, "nFilesPerJob": None},
    "aligned without a number": {"orderInputBy": "eventsAlignment"},
    "aligned in another order": {"orderInputBy": "eventsAlignment", "nEventsPerJob": 5, "orderByLB": True},
    "copied and not copied": {"useLocalIO": True, "allowInputLAN": "only"},
    "two granularities": {"minGranularity": 5, "nEventsPerRange": 6, "nFilesPerJob": None},
    "granularity and events": {"minGranularity": 50, "nEventsPerJob": 5, "tgtNumEventsPerJob": 6},
    "granularity without input": {"nEventsPerRange": 50, "noInput": True, "nEvents": 5, "jobParameters": [output("a")]},
    "granularity above the most": {"minGranularity": 50, "maxEventsPerJob": 5, "nFilesPerJob": None},
    "no input": {"jobParameters": [output("a")]},
    "no number": {"noInput": True, "jobParameters": [output("a")]},
    "records and input": {"jobParameters": [an_input(), {"type": "template", "param_type": "pseudo_input",
                                                         "value": "${SN}", "num_records": 3}]},
    "records and numbers": {"nFiles": 3, "nEvents": 3, "jobParameters": [
        {"type": "template", "param_type": "pseudo_input", "value": "${SN}", "num_records": 3}]},
    "physical names": {"pfnList": ["a", "a", "b^x"], "nFiles": 9, "nEvents": 3, "nEventsPerJob": 3},
    "physical names twice": {"pfnList": ["a", "a^7"], "nFiles": 9, "nEvents": 3, "nEventsPerJob": 3},
    "source names": {"useFileAsSourceLFN": True, "groupBoundaryID": 3},
    "fields of names": {"addNthFieldToLFN": "2", "mergeOutput": True},
    "fields of no names": {"addNthFieldToLFN": 2, "noInput": True, "nEvents": 5, "jobParameters": [output("a")]},
    "nothing of the event service": {
        "nEsConsumers": 2, "nSitesPerJob": 2, "maxAttemptES": 2, "maxAttemptEsJob": 2, "notDiscardEvents": True,
        "decAttOnFailedES": True, "resurrectConsumers": True, "nJumboJobs": 2, "maxJumboPerSite": 2,
        "esmergeSpec": {"transPath": "a"}, "fineGrainedProc": True, "mergeEsOnOS": True,
    },
    "numbers that are the default": {"nEsConsumers": 1, "nSitesPerJob": 1, "maxAttemptES": 10, "maxAttemptEsJob": 3},
    "fine-grained": {
        "nEventsPerWorker": 5, "fineGrainedProc": True, "nEsConsumers": 2, "nSitesPerJob": 1, "nJumboJobs": 1,
    },
    "event service without input": {
        "nEventsPerWorker": 5, "mergeOutput": True, "noInput": True, "nEvents": 5, "jobParameters": [output("a")],
        "buildSpec": {"archiveName": "a", "jobParameters": "b"},
    },
    "copies": {
        "useJobCloning": "runonce", "nEventsPerWorker": 5, "maxAttemptES": 1, "notDiscardEvents": True,
        "mergeOutput": True, "buildSpec": {"archiveName": "a", "jobParameters": "b"}, "noInput": True, "nEvents": 5,
        "jobParameters": [output("a")],
    },
    "no search": {"hpoRequestData": {"max_points": 5}, "maxNumJobs": 3, "totNumJobs": 3},
    "a search of nothing": {"hpoWorkflow": True},
    "a search that contradicts itself": {
        "hpoWorkflow": True, "mergeOutput": True, "loadXML": "<a/>", "pfnList": ["a"], "useJobCloning": "runonce",
        "respectLB": True, "buildSpec": {"archiveName": "a", "jobParameters": "b"}, "segmentedWork": True,
        "nEventsPerWorker": 3, "nEvents": 500, "nEventsPerJob": 1,
        "hpoRequestData": {"max_points": 5, "sandbox": "a", "min_unevaluated_points": 3},
    },
    "generations that never end": {
        "hpoWorkflow": True, "noInput": True, "nEvents": 2, "nEventsPerJob": 1, "jobParameters": [output("a")],
        "hpoRequestData": {
            "max_points": 5, "executable": "a", "num_points_per_generation": 2, "min_unevaluated_points": 2,
        },
    },
    "attempts of a search": {
        "hpoWorkflow": True, "noInput": True, "nEvents": 2, "jobParameters": [output("a")], "maxAttemptES": 2,
        "decAttOnFailedES": True, "nEsConsumers": 3, "hpoRequestData": {"max_points": 5},
    },
    "segmented without segments": {"segmentedWork": True},
    "segments that contradict": {
        "segmentSpecs": [{"name": "a", "files": ["x", "x"], "id": 1}, {"name": "a", "files": ["y"]}],
        "loadXML": "<a/>", "pfnList": ["a"], "noInput": True, "respectLB": True, "orderByLB": True,
        "releasePerLB": True, "orderInputBy": "eventsAlignment", "addNthFieldToLFN": "2", "mergeOutput": True,
        "nEventsPerWorker": 3,
    },
    "segments with what they have not": {"segmentSpecs": [{"name": "a", "files": ["x"], "datasets": ["b"], "fils": 1}]},
    "segments of the same id": {
        "segmentSpecs": [{"name": "a", "files": ["x"], "id": 1}, {"name": "b", "files": ["y"], "id": 1}],
        "jobParameters": [output("a")],
    },
    "an XML that contradicts": {
        "loadXML": "<a/>", "nFiles": 1, "nEvents": 1, "nFilesPerJob": 1, "nEventsPerJob": 1, "tgtNumEventsPerJob": 1,
        "minGranularity": 1, "nEventsPerRange": 1, "respectLB": True, "orderByLB": True, "releasePerLB": True,
        "orderInputBy": "eventsAlignment", "skipShortInput": True, "skipShortOutput": True, "skipFilesUsedBy": [1],
        "runUntilClosed": True, "addNthFieldToLFN": "2", "mergeOutput": True, "pfnList": ["a"], "noInput": True,
        "groupBoundaryID": 2, "nEventsPerWorker": 3,
    },
    "a log of merges": {"log_merge": {**log("a"), "param_type": "input"}},
    "logs": {"log": [{**log("a"), "param_type": "output"}, {**log("b"), "value": "no number", "dataset": "a,b"}]},
    "attributes": {"jobParameters": [an_input(attributes="unknown=1"), output("a", attributes="ratio=2")]},
    "attributes without numbers": {"jobParameters": [an_input(attributes="ratio=x"), output("a", attributes="pseudo")]},
    "items that are none": {"jobParameters": [
        an_input(ratio=-1), output("f", include=["("], num_records=0), "no item",
        {"type": "other", "unknown": 1, "nFilesPerJobs": 1},
    ]},
    "names of items": {"jobParameters": [
        an_input("a b," + "s" * 40 + ":x,%%INDS%%,s?:y," + "d" * 300, value="nothing"), an_input("", stream="IN"),
        {"type": "template", "value": "${OTHER}"}, an_input(stream="S" * 30), an_input(stream="IN"),
        an_input(files=["%%FILES%%"]),
        output("a", value="a/b ${SN}", dataset="x,y"), output("b", value="regex|a("), output("c", value="--o=c"),
        output("d", value="--o=" + "d" * 300 + "${SN}"), output("e", value="--o=e?.${SN}", dataset="a.b c"),
    ]},
    "outputs by expressions": {"jobParameters": [
        an_input(), output("a", value="regex|a", hidden=True), output("b", value="regex|a", hidden=True),
        output("c", value="regex|", hidden=True), output("d", value="regex|a{1,2} b", hidden=True),
        output("e", value="regex|(?!a)", hidden=True), output("f", value="regex|" + "f" * 300, hidden=True),
    ], "log": {**log("a"), "value": "regex|log"}},
    "outputs by an expression that are merged": {
        "mergeOutput": True, "jobParameters": [an_input(), output("a", value="regex|a", hidden=True)],
    },
    "outputs by an expression of the event service": {
        "nEventsPerWorker": 3, "jobParameters": [an_input(), output("a", value="regex|a", hidden=True)],
    },
    "outputs by an expression of copies": {
        "useJobCloning": "runonce", "jobParameters": [an_input(), output("a", value="regex|a", hidden=True)],
    },
    "an XML of outputs by an expression": {
        "nFilesPerJob": None, "loadXML": _XML.format(dataset="mc.evnt", name="a"),
        "jobParameters": [an_input(), output("a", value="regex|a", hidden=True)],
    },
    "an XML of another dataset": {
        "nFilesPerJob": None, "loadXML": _XML.format(dataset="mc.other", name="a"),
        "jobParameters": [an_input(), output("a"), output("b")],
    },
    "an XML of a name with a blank": {
        "nFilesPerJob": None, "loadXML": _XML.format(dataset="mc.evnt", name="a b"),
        "jobParameters": [an_input(), output("a", hidden=True)],
    },
    "an XML of a long name": {
        "nFilesPerJob": None, "loadXML": _XML.format(dataset="mc.evnt", name="a" * 300),
        "jobParameters": [an_input(), output("a", hidden=True)],
    },
    "an XML of two datasets": {
        "nFilesPerJob": None, "loadXML": _XML.format(dataset="mc.evnt", name="a"),
        "jobParameters": [an_input("mc.evnt,mc.minbias"), output("a", hidden=True)],
    },
    "an XML without files of the first input": {
        "nFilesPerJob": None, "loadXML": _XML.format(dataset="mc.minbias", name="a"),
        "jobParameters": [an_input(), an_input("mc.minbias", stream="IN2"), output("a", hidden=True)],
    },
    "another cloud": {"cloud": "US"},
    "no percentage": {"termCondition": "all of it"},
    "placeholders": {
        "jobParameters": [an_input(value="${IN} ${UNKNOWN} ${IN/X}"), output("a", value="--o=${OUT}.${SN}")]
    },
    "placeholders of merges": {
        "mergeOutput": True, "mergeSpec": {"transPath": "a", "jobParameters": "${UNKNOWN}"},
        "buildSpec": {"archiveName": "a", "jobParameters": "${UNKNOWN}"}, "preproSpec": {"jobParameters": "${UNKNOWN}"},
    },
    "placeholders of merges of events": {"nEventsPerWorker": 3, "esmergeSpec": {"jobParameters": "${UNKNOWN}"}},
    "specifications with what they have not": {
        "mergeSpec": {"a": 1}, "buildSpec": {"archive": "a", "tarBallViaDDM": "a"}, "preproSpec": {}, "esmergeSpec": 3,
        "multiStepExec": {"preprocess": {"comand": "a"}}, "hpoRequestData": {"max_point": 3},
    },
    "what the database does not keep": {"campaign": "a\x00", "countryGroup": "\ud800", "cliParams": "\x00"},
    "several that are refused": {"nFiles": "many", "pushJob": True, "goal": -1, "vo": None, "skipScout": 3},
}  # fmt: skip
#: what a user without the role production may not ask for
BY_USERS: dict[str, Form] = {
    "production of a user": {},
    "all that is not for users": {
        "taskType": "anal", "prodSourceLabel": "user", "workingGroup": "higgs", "taskPriority": 5000,
        "currentPriority": 5000, "maxAttempt": 99, "skipScout": True, "gshare": "MC", "official": True,
    },
    "a search": {
        "taskType": "anal", "prodSourceLabel": "user", "skipScout": True, "hpoWorkflow": True, "noInput": True,
        "nEvents": 2, "hpoRequestData": {"max_points": 5}, "jobParameters": [output("a")],
    },
    "another VO": {"vo": "other", "taskType": "anal", "prodSourceLabel": "user"},
}  # fmt: skip
USER = Caller("alice", frozenset({"user"}), frozenset(), "demo", is_of_every_vo=False)

PRODUCER = Caller("prodteam", frozenset({"production"}), frozenset())


def told_of_refused_forms() -> Iterator[tuple[str, list[str]]]:
    """Each form that is refused, with its problems as they are told."""
    for name in sorted({*FACTS, *REFUSED, "dsForIN"}):
        yield name, [one for value in VALUES for one in _problems({name: value})]
    for name in sorted(REFUSED_OF_ITEMS):
        yield f"jobParameters: {name}", _problems({"jobParameters": [{**an_input(), name: 3}, output("a")]})
    for case, changes in BETWEEN.items():
        yield case, _problems(changes)
    for form in (None, ["a"], "task", 3):
        yield f"a form that is {form!r}", _problems_of(form)
    for case, changes in BY_USERS.items():
        yield f"by a user: {case}", [str(one) for one in rights_missing(parse_task(_form(changes)), USER)]
    others = _form({"userName": "somebody.else", "useSecrets": True})
    yield "by production in another name", [str(one) for one in rights_missing(parse_task(others), PRODUCER)]


def _form(changes: Form) -> Form:
    given = production(nFilesPerJob=2) | changes
    return {name: value for name, value in given.items() if value is not None or name not in production()}


def _problems(changes: Form) -> list[str]:
    return _problems_of(_form(changes))


def _problems_of(form: Any) -> list[str]:
    """Sorted: which of several comes first says nothing."""
    try:
        parse_task(form)
    except InvalidTask as error:
        return sorted(str(one) for one in error.problems)
    return []


def written() -> str:
    """The table as text: a line for each form, its problems below it."""
    lines = []
    for case, problems in told_of_refused_forms():
        if problems:
            lines += [f"{case}", *(f"    {one}" for one in problems)]
    return "\n".join(lines).encode("utf-8", "backslashreplace").decode() + "\n"
