"""What a task that is submitted again changes in the task of its name.

Source: JEDI: Task retry and resubmission. It runs on input that was not used or failed; only a few parameters change,
and the input sandbox where new code is to be used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from services.task_definition.tasks.policy.task_parameters.table import CHANGED_BY_COMMAND, CHANGED_BY_RETRY
from services.task_definition.tasks.policy.task_spec import TaskSpec

#: states in which a task can be submitted again
AGAIN = ("finished", "failed", "aborted", "exhausted", "done")
#: how a command line names the sandbox of the user's code
_SANDBOX = re.compile(r"(?:(?<=^)|(?<=\s))-a\s+(\S+)")
#: what clients send along for people, kept as it was sent last
_SAID = ("cliParams",)


#: memory is changed by commands alone: clients state it at each submission
_TAKEN = CHANGED_BY_COMMAND - {"ramCount", "ramUnit"}


def merged(old: Mapping[str, Any], new: TaskSpec) -> tuple[dict[str, Any], frozenset[str]]:
    """The parameters that the task goes on with, and the names of those that changed.

    What the specification lists is taken from the new submission, also where it says nothing any more: the limit of the
    first one, such as nFiles = 10, does not hold for the rest. What else a command may change is taken where it is
    given, as PanDA's server does. New datasets take the place of those of the same stream.
    """
    given = new.submitted
    found = {name: value for name, value in old.items() if name not in CHANGED_BY_RETRY and name not in _SAID}
    found |= {name: given[name] for name in (*_TAKEN, *_SAID) if given.get(name) not in (None, "")}
    changed = {name for name in _TAKEN if _plain(found.get(name)) != _plain(old.get(name))}
    with_input = _with_datasets_of(found.get("jobParameters") or [], given.get("jobParameters") or [])
    if with_input != found.get("jobParameters"):
        found["jobParameters"] = with_input
        changed.add("jobParameters")
    if new.parameters.fixed_sandbox:
        with_code = with_sandbox(found, new.parameters.fixed_sandbox)
        if with_code != found:
            changed.add("fixedSandbox")
        found = with_code
    return found, frozenset(changed)


def with_sandbox(parameters: Mapping[str, Any], sandbox: str) -> dict[str, Any]:
    """The same task with the sandbox of new code: in its command lines, its build job and its merge jobs.

    Example: the constant "-a jobO.1a2b.tar.gz" becomes "-a jobO.3c4d.tar.gz".
    """
    found = {**parameters, "fixedSandbox": sandbox}
    found["jobParameters"] = [_item_with_sandbox(item, sandbox) for item in parameters.get("jobParameters") or []]
    if isinstance(parameters.get("buildSpec"), Mapping):
        found["buildSpec"] = {**parameters["buildSpec"], "archiveName": sandbox}
    merge = parameters.get("mergeSpec")
    if isinstance(merge, Mapping) and isinstance(merge.get("jobParameters"), str):
        found["mergeSpec"] = {**merge, "jobParameters": _text_with_sandbox(merge["jobParameters"], sandbox)}
    return found


def _item_with_sandbox(item: Any, sandbox: str) -> Any:
    if not isinstance(item, Mapping) or item.get("type") != "constant" or not isinstance(item.get("value"), str):
        return item
    return {**item, "value": _text_with_sandbox(item["value"], sandbox)}


def _text_with_sandbox(text: str, sandbox: str) -> str:
    return _SANDBOX.sub(lambda found: f"-a {sandbox}", text)


def _with_datasets_of(old: list[Any], new: list[Any]) -> list[Any]:
    """The old items with the datasets that the new ones of the same place among the inputs name."""
    sent = [item for item in new if _is_input(item)]
    named = iter(sent)
    found = []
    for item in old:
        other = next(named, None) if _is_input(item) else None
        found.append(item if other is None else {**item, **_selection_of(other)})
    return found


def _selection_of(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: item[name] for name in ("dataset", "container", "files", "include", "exclude") if name in item}


def _is_input(item: Any) -> bool:
    return isinstance(item, Mapping) and item.get("param_type") == "input"


def _plain(value: Any) -> Any:
    """A list of names alike however it is written."""
    if isinstance(value, str) and "," in value:
        return [one.strip() for one in value.split(",")]
    return None if value in ("", []) else [value] if isinstance(value, str) else value
