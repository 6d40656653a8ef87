"""What a task means that PanDA's client submits: its type, its priority, the script that runs it.

Source: PanDA client, prun: its tasks name none of them, so that the server can change them without a new client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.model.analysis import ANALYSIS, is_analysis
from shared.model.dataset_types import ARCHIVE_STREAM, SOURCES_STREAM
from shared.model.priorities import ANALYSIS_PRIORITY
from shared.task.stored import name_of

#: priorities between which users set those of their own tasks; any other is that of all
LOWEST_OF_USERS, HIGHEST_OF_USERS = 900, 1100
#: labels of work that users submit without a type
_OF_USERS = ("test", "ptest")
#: steps of a task -> what its script is listed under, before a word of processingType
_STEPS = (("buildSpec", "build "), ("mergeSpec", "merge "), ("preproSpec", "prepare "))
#: words of processingType of work that has a release or a container to set up; any other begins within a minute
_SETS_UP, _BASE_WALLTIME_OF_SCRIPTS_S = {"athena", "cont"}, 60
_TAR_BALL = "tarBallViaDDM"
#: the word of processingType before the one that says what kind of work it is
_AFTER = "jedi"


def with_client_defaults(parameters: Any, scripts_url: str, scripts: Mapping[str, str]) -> Any:
    """The JSON with what it does not say, where its label is that of users; anything else as it came.

    Example: {"prodSourceLabel": "user", "processingType": "panda-client-2.2.0-jedi-run"} with the scripts
    {"run": "runGen-00-00-02"} at "http://scripts/" is an analysis task, has taskPriority 1000, baseWalltime 60 (s) and
    transPath "http://scripts/runGen-00-00-02".
    """
    if not isinstance(parameters, Mapping):
        return parameters
    given = {name: value for name, value in parameters.items() if value is not None}
    label, task_type = given.get("prodSourceLabel"), given.get("taskType")
    is_of_users = label in _OF_USERS and task_type is None
    if not isinstance(label, str) or not (
        is_of_users or is_analysis(task_type if isinstance(task_type, str) else None, label)
    ):
        return parameters
    found: dict[str, Any] = {"taskType": ANALYSIS, "taskPriority": ANALYSIS_PRIORITY}
    script = _script(given.get("processingType"), scripts)
    if script is not None:
        found["transPath"] = f"{scripts_url.rstrip('/')}/{script}"
    if "transPath" not in given and not _SETS_UP & set(str(given.get("processingType")).split("-")):
        found["baseWalltime"] = _BASE_WALLTIME_OF_SCRIPTS_S
    missing: dict[str, Any] = {name: value for name, value in found.items() if name not in given}
    for name, prefix in _STEPS:
        step, script = given.get(name), _script(given.get("processingType"), scripts, prefix)
        if isinstance(step, Mapping) and "transPath" not in step and script is not None:
            missing[name] = {**step, "transPath": f"{scripts_url.rstrip('/')}/{script}"}
    return _with_tar_ball({**parameters, **missing})


def _with_tar_ball(parameters: dict[str, Any]) -> dict[str, Any]:
    """The archive of the user's code from a dataset (PanDA client: --tarBallViaDDM) as input that each job reads.

    That of buildSpec is read by build jobs alone. Example: "user.ada.code:code.tgz" adds a hidden input with the
    dataset user.ada.code and the file code.tgz. Anything else is left for the check.
    """
    items, build = parameters.get("jobParameters"), parameters.get("buildSpec")
    if not isinstance(items, list):
        return parameters
    found = dict(parameters)
    archives = [_archive(found, ARCHIVE_STREAM)]
    if isinstance(build, Mapping):
        found["buildSpec"] = dict(build)
        archives.append(_archive(found["buildSpec"], SOURCES_STREAM))
    return {**found, "jobParameters": [*items, *(one for one in archives if one is not None)]}


def _archive(of: dict[str, Any], stream: str) -> dict[str, Any] | None:
    """The input that DATASET:FILE means, taken out of what states it; None where that is not stated."""
    stated = of.get(_TAR_BALL)
    dataset, _, file = stated.rpartition(":") if isinstance(stated, str) else ("", "", "")
    if not (dataset and file):
        return None
    del of[_TAR_BALL]
    return {
        "type": "template", "param_type": "input", "value": f"${{{stream}}}", "dataset": dataset, "files": [file],
        "attributes": "nosplit,repeat", "hidden": True,
    }  # fmt: skip


def allowed_to_users(parameters: Any) -> tuple[Any, list[str]]:
    """The JSON of analysis as PanDA's server takes it of users, and what they are told of the change.

    Example: {"currentPriority": 5000, "skipScout": true} is {"currentPriority": 1000}: a priority out of range is
    that of all, and only official tasks skip their scouts.
    """
    if not isinstance(parameters, Mapping) or parameters.get("taskType") != ANALYSIS:
        return parameters, []
    told = list[str]()
    found, priority = dict(parameters), parameters.get("currentPriority")
    if type(priority) is int and not LOWEST_OF_USERS <= priority <= HIGHEST_OF_USERS:
        found["currentPriority"] = ANALYSIS_PRIORITY
        allowed = f"{LOWEST_OF_USERS} to {HIGHEST_OF_USERS}"
        told.append(f"currentPriority = {priority} is taken as {ANALYSIS_PRIORITY}; allowed: {allowed}")
    may_skip = parameters.get(name_of("official")) or parameters.get(name_of("evaluates_points"))
    if not may_skip and found.pop(name_of("skip_scout"), None):
        told.append("skipScout is taken and nothing is done for it: official tasks alone skip their scouts")
    return found, told


def _script(processing_type: Any, scripts: Mapping[str, str], prefix: str = "") -> str | None:
    """The script of the first word after jedi that has one; None where there is none.

    Example: panda-client-2.2.0-jedi-run-grl is run with the script of `run`, its build jobs with that of `build run`,
    its pre-processing job with that of `prepare grl`.
    """
    words = processing_type.split("-") if isinstance(processing_type, str) else []
    kinds = words[words.index(_AFTER) + 1 :] if _AFTER in words else []
    if not prefix:
        kinds = kinds[:1]
    return next((scripts[prefix + kind] for kind in kinds if prefix + kind in scripts), None)
