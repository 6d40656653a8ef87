"""Changes of parameters in the words of clients: what they mean for the JSON of a task. Pure.

Source: PanDA client, pbook retry; JEDI: Task retry and resubmission.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.task_definition.tasks.policy.task_parameters.table import stream_of, with_numbers
from services.task_definition.tasks.policy.task_spec_items import PLACEHOLDER
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem
from shared.task.stored import name_of

#: the client says whether jobs are looked at, the task that they are not
_LOOPING_CHECK, _NO_LOOPING_CHECK = "loopingCheck", name_of("no_looping_check")
#: the client's word for the rule that follows from it
_FORCE_STAGED, _USE_LOCAL_IO = "forceStaged", name_of("copies_to_scratch")
#: files of a job, and the most that it may have: a task states no more than the second
_FILES, _MOST_FILES = name_of("n_files_per_job"), name_of("n_max_files_per_job")


@dataclass(frozen=True)
class MeantChanges:
    """Changes under the names of parameters.

    `of_streams`: dsFor<STREAM> with the items that follow from them.
    """

    named: Mapping[str, Any]
    of_streams: Mapping[str, Any]


def in_own_words(parameters: Mapping[str, Any], changes: Mapping[str, Any]) -> MeantChanges | list[FieldProblem]:
    """The changes of a task with these parameters, or what is wrong with them.

    Example: {"loopingCheck": false, "dsForIN": "mc.b"} is {"noLoopingCheck": true}, and the item with ${IN} reads mc.b.
    """
    changes = with_numbers(changes)
    named = {name: value for name, value in changes.items() if stream_of(name) is None and name != _LOOPING_CHECK}
    named |= _other_limit(parameters, named)
    if _LOOPING_CHECK in changes:
        named[_NO_LOOPING_CHECK] = not changes[_LOOPING_CHECK]
    if _FORCE_STAGED in changes:
        named[_USE_LOCAL_IO] = changes[_FORCE_STAGED]
    streams = {stream: changes[name] for name in changes if (stream := stream_of(name)) is not None}
    if not streams:
        return MeantChanges(named, {})
    items = list(parameters.get("jobParameters") or [])
    known = {stream: place for place, item in enumerate(items) if (stream := _stream_read(item)) is not None}
    problems = [
        problem(f"dsFor{stream}", dataset, f"allowed: dsFor with a stream of the task: {', '.join(sorted(known))}")
        for stream, dataset in streams.items()
        if stream not in known or not isinstance(dataset, str) or not dataset
    ]
    if problems:
        return problems
    for stream, dataset in streams.items():
        items[known[stream]] = {**items[known[stream]], "dataset": dataset}
    return MeantChanges(named, {"jobParameters": items, **{f"dsFor{stream}": one for stream, one in streams.items()}})


def _other_limit(parameters: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, int]:
    """The limit of files that follows the changed one: of two that contradict each other the changed one holds.

    Example: nFilesPerJob 300 of a task with nMaxFilesPerJob 200, which prun always states, makes both 300.
    """
    for changed, other in ((_FILES, _MOST_FILES), (_MOST_FILES, _FILES)):
        value, stated = changes.get(changed), parameters.get(other)
        if other in changes or type(value) is not int or type(stated) is not int:
            continue
        if (value > stated) if changed == _FILES else (0 < value < stated):
            return {other: value}
    return {}


def without_items(of_streams: Mapping[str, Any]) -> dict[str, Any]:
    """The names that were given, where no other input may be: these are refused by name."""
    return {name: value for name, value in of_streams.items() if stream_of(name) is not None}


def _stream_read(item: Any) -> str | None:
    """The stream of an input item; None of any other."""
    if not isinstance(item, Mapping) or item.get("type") != "template" or item.get("param_type") != "input":
        return None
    found = PLACEHOLDER.search(str(item.get("value") or ""))
    return found.group(1) if found else None
