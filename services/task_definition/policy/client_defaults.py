"""What a task means that PanDA's client submits: its type, its priority, the script that runs it.

Source: PanDA client, prun: its tasks name none of them, so that the server can change them without a new client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.model.analysis import ANALYSIS, is_analysis
from shared.model.priorities import ANALYSIS_PRIORITY

#: the word of processingType before the one that says what kind of work it is
_AFTER = "jedi"


def with_client_defaults(parameters: Any, scripts_url: str, scripts: Mapping[str, str]) -> Any:
    """The JSON with what it does not say, where its label is that of users; anything else as it came.

    Example: {"prodSourceLabel": "user", "processingType": "panda-client-2.2.0-jedi-run"} with the scripts
    {"run": "runGen-00-00-02"} at "http://scripts/" is an analysis task, has taskPriority 1000 and transPath
    "http://scripts/runGen-00-00-02".
    """
    if not isinstance(parameters, Mapping):
        return parameters
    given = {name: value for name, value in parameters.items() if value is not None}
    label, task_type = given.get("prodSourceLabel"), given.get("taskType")
    if not isinstance(label, str) or not is_analysis(task_type if isinstance(task_type, str) else None, label):
        return parameters
    found = {"taskType": ANALYSIS, "taskPriority": ANALYSIS_PRIORITY}
    script = _script(given.get("processingType"), scripts)
    if script is not None:
        found["transPath"] = f"{scripts_url.rstrip('/')}/{script}"
    missing: dict[str, Any] = {name: value for name, value in found.items() if name not in given}
    for name, prefix in (("buildSpec", "build "), ("mergeSpec", "merge ")):
        step, script = given.get(name), _script(given.get("processingType"), scripts, prefix)
        if isinstance(step, Mapping) and "transPath" not in step and script is not None:
            missing[name] = {**step, "transPath": f"{scripts_url.rstrip('/')}/{script}"}
    return {**parameters, **missing}


def _script(processing_type: Any, scripts: Mapping[str, str], prefix: str = "") -> str | None:
    """The script of the first word after jedi; None where there is none.

    Example: panda-client-2.2.0-jedi-run-evp is run with the script of `run`, its build jobs with that of `build run`.
    """
    words = processing_type.split("-") if isinstance(processing_type, str) else []
    kind = words[words.index(_AFTER) + 1 : words.index(_AFTER) + 2] if _AFTER in words else []
    return scripts.get(prefix + kind[0]) if kind else None
