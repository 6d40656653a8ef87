"""The table of task parameters: each is read by whom it says, or refused by name; text of two-letter codes."""

from __future__ import annotations

import importlib.util
import inspect
import io
import re
import tokenize
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.task_definition.tasks.policy.outputs import plan_outputs
from services.task_definition.tasks.policy.task_parameters.refused import REFUSED, REFUSED_OF_ITEMS
from services.task_definition.tasks.policy.task_parameters.table import (
    CHANGED_BY_RETRY,
    CHANGED_LIVE,
    FACTS,
    TaskParameters,
    described,
    warnings_of,
)
from services.task_definition.tasks.policy.task_spec import parse_task
from services.task_definition.tasks.policy.task_spec_items import REFUSED_ATTRIBUTES
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from shared.task.about import About
from shared.task.in_effect import SplitRules
from shared.task.rule_text import (
    NAME_OF_CODE,
    InvalidRuleText,
    rules_of_text,
    rules_without_code,
    text_of_rules,
)
from tests.handlers.task_definition.world import production
from tests.unit.task_spec.refusals import problems_of

#: names of task parameters that the field's documents list (JEDI: task parameters), without dsFor<STREAM>
LISTED_NAMES = """
taskName userName vo prodSourceLabel taskType taskPriority currentPriority architecture transUses transHome
transPath processingType jobParameters log workingGroup countryGroup campaign requestType reqID ticketID
ticketSystemType cloud site nucleus includedSite excludedSite coreCount mergeCoreCount maxCoreCount ramCount ramUnit
ramCountUnit baseRamCount mergeRamCount cpuTime cpuTimeUnit cpuEfficiency baseWalltime walltime walltimeUnit
outDiskCount outDiskUnit workDiskCount workDiskUnit ioIntensity ioIntensityUnit goal failWhenGoalUnreached
useExhausted disableAutoFinish maxAttempt maxFailure disableAutoRetry skipScout scoutSuccessRate respectSplitRule
osInfo container_name framework ttcrTimestamp workQueueName gshare nFiles nEvents nFilesPerJob nEventsPerJob
tgtNumEventsPerJob nEventsPerInputFile nEventsPerFile nGBPerJob nMaxFilesPerJob maxEventsPerJob maxWalltime
tgtMaxOutputForNG nEventsPerRange minGranularity skipFilesUsedBy skipShortInput skipShortOutput useRealNumEvents
orderInputBy noInputPooling nEventsPerWorker nEsConsumers nSitesPerJob maxAttemptES maxAttemptEsJob mergeEsOnOS
notDiscardEvents decAttOnFailedES resurrectConsumers registerEsFiles inFilePosEvtNum useJobCloning esmergeSpec
objectStore fineGrainedProc esFraction esConvertible nJumboJobs maxJumboPerSite mergeOutput mergeSpec umNameAtEnd
nGBPerMergeJob nFilesPerMergeJob nMaxFilesPerMergeJob nEventsPerMergeJob onSiteMerging buildSpec preproSpec
inputPreStaging waitInput noWaitParent ignoreMissingInDS runUntilClosed allowEmptyInput allowIncompleteInDS
useLocalIO allowInputLAN allowInputWAN pfnList noInput taskBrokerOnMaster t1Weight ipConnectivity ipStack avoidVP
altStageOut disableReassign fullChain osMatching onlyTagsForFC cliParams sourceURL fixedSandbox destination official
debugMode noLoopingCheck noThrottle noAutoPause messageDriven pushStatusChanges encJobParams useSecrets
multiStepExec segmentSpecs hpoWorkflow hpoRequestData respectLB orderByLB releasePerLB groupBoundaryID mergeRamUnit
noEmail reuseSecOnDemand getNumEventsInMetadata transferType termCondition retryRamOffset retryRamStep retryRamMax
minCpuEfficiency log_merge amiFlag superStatus
"""


@cache
def code_of(place: str) -> str:
    """A module, or all of a package, without comments and docstrings, with the statements beside it."""
    spec = importlib.util.find_spec(place)
    assert spec is not None and spec.origin is not None
    path = Path(spec.origin)
    paths = sorted(path.parent.rglob("*.py")) if spec.submodule_search_locations else [path]
    found = []
    for one in paths:
        tokens = tokenize.generate_tokens(io.StringIO(one.read_text()).readline)
        words = [one.string for one in tokens if one.type != tokenize.COMMENT and not one.string.startswith('"""')]
        statements = one.with_suffix(".sql")
        found += [" ".join(words), statements.read_text() if statements.exists() else ""]
    return "\n".join(found)


@pytest.mark.parametrize("name", LISTED_NAMES.split())
def test_a_listed_name_is_carried_out_or_refused_with_the_reason(name: str) -> None:
    assert (name in FACTS) != (name in REFUSED)


FIELD_OF = {field.alias or name: name for name, field in TaskParameters.model_fields.items()}


@pytest.mark.parametrize(("name", "about"), sorted(FACTS.items()))
def test_a_parameter_is_read_by_the_module_that_the_table_names(name: str, about: About) -> None:
    if about.kept:
        assert about.reader == ""
        return
    code, field = code_of(about.reader), FIELD_OF[name]
    if field not in SplitRules.model_fields:
        assert name in code or field in code
        return
    asked = "|".join([field, *(one for one in PROPERTIES if re.search(rf"self\.{field}\b", PROPERTIES[one]))])
    assert re.search(rf"\. (?:{asked})\b|split_rule \S+ '{name}'", code) or f'name_of ( "{field}" )' in code


#: what is asked of the rules of a task besides a single one, with its code
PROPERTIES = {
    name: inspect.getsource(one.fget)
    for name, one in vars(SplitRules).items()
    if isinstance(one, property) and one.fget is not None
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_parameter_that_is_not_carried_out_is_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        parse_task(production(**{name: {"any": "thing"}}))
    assert [(one.field, one.allowed) for one in refused.value.problems] == [(name, REFUSED[name])]


@pytest.mark.parametrize("name", sorted(REFUSED_OF_ITEMS))
def test_columns_of_output_templates_that_no_field_sets_are_refused_in_items(name: str) -> None:
    task = production()
    task["jobParameters"][0][name] = "7"
    with pytest.raises(InvalidTask) as refused:
        parse_task(task)
    assert [(one.field, one.allowed) for one in refused.value.problems] == [
        (f"jobParameters.0.{name}", REFUSED_OF_ITEMS[name])
    ]


@pytest.mark.parametrize("cloud", ["US", "DE", "world"])
def test_a_cloud_other_than_world_is_refused_with_the_reason(cloud: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        parse_task(production(cloud=cloud))
    assert [one.field for one in refused.value.problems] == ["cloud"]
    assert "hospital queues, are not used" in str(refused.value)
    assert parse_task(production(cloud="WORLD")).columns()["cloud"] == "WORLD"


@pytest.mark.parametrize("value", [None, False, 0, "", "none"])
def test_a_refused_parameter_that_says_no_is_taken(value: Any) -> None:
    assert "useZipToPin" not in parse_task(production(useZipToPin=value)).split_rule()


@pytest.mark.parametrize("attribute", sorted(REFUSED_ATTRIBUTES))
def test_an_attribute_of_a_dataset_that_is_not_carried_out_is_refused(attribute: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        first, *others = production()["jobParameters"]
        parse_task(production(jobParameters=[{**first, "attributes": f"nosplit,{attribute}=1"}, *others]))
    assert attribute in str(refused.value) and REFUSED_ATTRIBUTES[attribute] in str(refused.value)


@pytest.mark.parametrize(
    ("place", "changes", "told"),
    [
        (-1, {"ratio": 2}, "attribute ratio: allowed: with param_type input only"),
        (-1, {"attributes": "nosplit"}, "attribute nosplit: allowed: with param_type input only"),
        (0, {"mergeOnly": True}, "attribute mergeOnly: allowed: with param_type output or log only"),
        (0, {"allowNoOutput": True}, "attribute allowNoOutput: allowed: with param_type output or log only"),
        ("log", {"random": True}, "attribute random: allowed: with param_type input only"),
    ],
)
def test_an_attribute_of_an_item_that_has_no_such_attribute_is_refused(
    place: int | str, changes: dict[str, Any], told: str
) -> None:
    task = production()
    if place == "log":
        task["log"] = {**task["log"], **changes}
    else:
        assert isinstance(place, int)
        task["jobParameters"] = list(task["jobParameters"])
        task["jobParameters"][place] = {**task["jobParameters"][place], **changes}
    with pytest.raises(InvalidTask) as refused:
        parse_task(task)
    assert [one.allowed for one in refused.value.problems] == [told]


def test_force_staged_is_use_local_io_whatever_that_says() -> None:
    assert parse_task(production(forceStaged=True)).split_rule()["useLocalIO"] is True
    assert "useLocalIO" not in parse_task(production(forceStaged=False, useLocalIO=True)).split_rule()


def test_what_nothing_is_done_for_is_told_with_the_reason_and_what_is_carried_out_is_not() -> None:
    spec = parse_task(
        production(
            ddmBackEnd="rucio", toStaging=True, intermediateTask=True, putLogToOS=True, noEmail=True, osMatching=True
        )
    )
    assert warnings_of(spec.parameters) == [
        "osMatching is taken and nothing is done for it: brokerage looks at no system that a task was submitted on, as "
        "in the field: name the platform in architecture",
        "ddmBackEnd is taken and nothing is done for it: the catalogue of a VO is set by its operators",
        "toStaging is taken and nothing is done for it: whether input is staged before jobs are made is said by "
        "inputPreStaging",
    ]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"osMatching": "True"}, {"osMatching": True}),
        ({"avoidVP": "true", "noLoopingCheck": "TRUE"}, {"avoidVP": True, "noLoopingCheck": True}),
        ({"avoidVP": "False", "debugMode": "false", "useZipToPin": "False"}, {}),
        ({"nFilesPerJob": "5", "t1Weight": "-1"}, {"nFilesPerJob": 5, "t1Weight": -1}),
    ],
)
def test_truths_and_numbers_may_be_written_as_text(texts: dict[str, str], said: dict[str, Any]) -> None:
    without = parse_task(production()).split_rule()
    assert parse_task(production(**texts)).split_rule() == {**without, **said}


@pytest.mark.parametrize("text", ["yes", "2", "tru"])
def test_any_other_text_is_no_truth(text: str) -> None:
    assert problems_of(production(skipShortInput=text)) == {"skipShortInput": "allowed: true or false"}


def test_an_input_that_is_to_be_one_dataset_is_told_to_be_read_dataset_by_dataset() -> None:
    """As prun --notExpandInDS writes it."""
    one = {"type": "template", "param_type": "input", "value": '-i "${IN/T}"', "dataset": "mc.a,mc.b"}
    spec = parse_task(production(inputs=[{**one, "consolidate": "user.jdoe.all/"}]))
    assert warnings_of(spec.parameters) == [
        "consolidate of mc.a,mc.b is taken and nothing is done for it: containers are expanded, and a job reads files "
        "of one of their datasets"
    ]
    assert warnings_of(parse_task(production(inputs=[{**one, "expand": True}])).parameters) == []


def test_datasets_of_streams_are_kept_and_are_no_rules() -> None:
    spec = parse_task(production(dsForIN="mc:a,mc:b", dsForDBR="mc:c"))
    assert spec.parameters.ds_for == {"IN": "mc:a,mc:b", "DBR": "mc:c"}
    assert not {"dsFor", "dsForIN", "osInfo"} & parse_task(production(osInfo="el9", dsForIN="x")).split_rule().keys()


def test_what_may_change_is_what_the_documents_list() -> None:
    assert sorted(CHANGED_BY_RETRY) == [
        "cloud", "excludedSite", "forceStaged", "ignoreMissingInDS", "includedSite", "nEvents", "nFiles",
        "nFilesPerJob", "nGBPerJob", "site",
    ]  # fmt: skip
    assert sorted(CHANGED_LIVE) == [
        "allowIncompleteInDS", "allowInputLAN", "avoidVP", "forceStaged", "ignoreMissingInDS", "maxCoreCount",
        "nEsConsumers", "nEventsPerWorker", "nFilesPerJob", "nGBPerJob", "nJumboJobs", "nMaxFilesPerJob",
        "noAutoPause", "noInputPooling", "noLoopingCheck", "onlyTagsForFC", "t1Weight", "useLocalIO",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("", {}),
        ("NF=5", {"nFilesPerJob": 5}),
        ("NF=5, MO=1", {"nFilesPerJob": 5, "mergeOutput": True}),
        ("IP=2,IK=6,TW=-1,SS=7", {"ipConnectivity": "http", "ipStack": "IPv6", "t1Weight": -1, "scoutSuccessRate": 7}),
        ("IP=full", {"ipConnectivity": "full"}),
        (
            "OI=1,IL=2,AT=3,FU=2,UC=1",
            {
                "orderInputBy": "eventsAlignment",
                "allowInputLAN": "only",
                "altStageOut": "force",
                "fullChain": "require",
                "useJobCloning": "runonce",
            },
        ),
        ("AN=2,6,NF=5", {"addNthFieldToLFN": "2,6", "nFilesPerJob": 5}),
        ("DY=100,RS=0", {"dynamicNumEvents": 100, "randomSeedOffset": 0}),
        ("US=1,UB=1", {"skipScout": True, "useBuild": 1}),
        ("US=2", {"skipScout": False}),
        ("US=3", {"skipScout": False}),
    ],
)
def test_text_of_codes_is_read_as_rules(text: str, rules: dict[str, Any]) -> None:
    assert rules_of_text(text) == rules


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("XX=1", "splitRule = 'XX=1': allowed: CODE=value with "),
        ("NF", "splitRule = 'NF': allowed: CODE=value"),
        ("NF=0", "nFilesPerJob = 0: allowed: 1 or more"),
        ("NF=many", "nFilesPerJob = 'many': allowed: a whole number"),
        ("MO=7", "mergeOutput = 7: allowed: true or false"),
        ("NF=1,NF=2", "splitRule = 'NF=2': NF is given twice"),
        ("RS=-1", "randomSeedOffset = -1: allowed: a whole number from 0 to "),
        ("UB=3", "useBuild = 3: allowed: a whole number from 0 to 1"),
        ("US=0", "skipScout = '0': allowed: true or false"),
        ("IP=3", "ipConnectivity = 3: "),
        ("WH=1", "splitRule = 'WH=1': WH is workflowHoldup: workflows are not carried out by this version"),
        ("PJ=1", "splitRule = 'PJ=1': PJ is pushJob: "),
        ("LS=1", "splitRule = 'LS=1': LS is no rule here: sites are limited by the lists"),
        ("RM=x", "splitRule = 'RM=x': RM is no rule here: rules of retries are set by operators"),
    ],
)
def test_text_that_is_no_rule_is_refused_with_its_place(text: str, told: str) -> None:
    with pytest.raises(InvalidRuleText) as refused:
        rules_of_text(text)
    assert str(refused.value).startswith(told)


_COUNT = st.integers(1, 1000)
RULES = st.fixed_dictionaries(
    {},
    optional={
        "nFilesPerJob": _COUNT, "nGBPerJob": _COUNT, "nEventsPerJob": _COUNT, "mergeOutput": st.just(True),
        "ipConnectivity": st.sampled_from(["full", "http"]), "ipStack": st.sampled_from(["IPv4", "IPv6"]),
        "orderInputBy": st.just("eventsAlignment"), "useJobCloning": st.sampled_from(["runonce", "storeonce"]),
        "addNthFieldToLFN": st.sampled_from(["2", "2,6", "1,2,3"]), "nChunksToWait": _COUNT,
        "t1Weight": st.integers(-1, 10),
        "skipScout": st.just(True), "tags": st.just("GPU"), "disableReassign": st.just(True),
        "groupBoundaryID": st.integers(1, 4),
    },
)  # fmt: skip


@given(RULES)
def test_rules_with_a_code_come_back_from_their_text(rules: dict[str, Any]) -> None:
    without = rules_without_code(rules)
    assert without == (["tags"] if "tags" in rules else [])
    assert rules_of_text(text_of_rules(rules)) == {name: one for name, one in rules.items() if name not in without}


#: codes that the field's documents list (JEDI: split rules)
LISTED_CODES = """
NF NE NG MF MW TN DY EI MX GB RL OL RP ES EC NS XA XJ NJ MJ MO ZF ZM ZG ZE US SS RR TW IP IK MC UX FG DF DR DI RS FT UB
UP RD IT IA LS RM RX RY RZ AE AI AN AP AT AV CC CV DE DM EJ FC FP FU HO IF IL IM IN IS IW LC LI LX MD ME MN MS NC ND NI
NP NT NW OI OM OS OT PC PJ PL PO RC RE RO RP SC SE SO ST SW TJ UC UE UF UT UZ WF WH WI XF
"""


@pytest.mark.parametrize("code", LISTED_CODES.split())
def test_a_listed_code_is_a_rule_or_refused_by_name(code: str) -> None:
    if code in NAME_OF_CODE:
        assert NAME_OF_CODE[code] in FACTS or NAME_OF_CODE[code] in (
            "dynamicNumEvents",
            "randomSeedOffset",
            "useBuild",
            "usePrePro",
        )
        return
    with pytest.raises(InvalidRuleText) as refused:
        rules_of_text(f"{code}=1")
    assert f"{code} is " in str(refused.value)


def test_each_code_is_of_one_rule() -> None:
    codes = [about.code for about in FACTS.values() if about.code]
    assert len(codes) == len(set(codes)) and set(codes) < set(NAME_OF_CODE)


def test_the_table_for_people_says_type_unit_range_and_changes() -> None:
    rows = {row["name"]: row for row in described()}
    assert rows["nGBPerJob"] == {
        "name": "nGBPerJob", "code": "NG", "type": "integer", "unit": "GB", "allowed": "1 to 1e+06", "default": "",
        "changes": "retry, live", "reader": "services.job_generation", "means": "input and output of a job at most",
    }  # fmt: skip
    assert (
        rows["vo"]["default"] == "needed"
        and rows["noEmail"]["reader"] == "services.task_definition.tasks.notifying.noting"
    )


def test_the_destination_of_a_task_is_a_rule_and_that_of_an_output_its_own() -> None:
    task = production(destination="A_DISK")
    task["log"] = {**task["log"], "destination": "B_DISK"}
    spec = parse_task(task)
    assert spec.split_rule()["destination"] == "A_DISK"
    assert [one.destination for one in plan_outputs(spec, 1).datasets] == [None, "B_DISK"]
