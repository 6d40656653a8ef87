"""Pre-processing: a job finds out parameters of its task, which is refined again with them. Pure.

Source: JEDI, Task status (topreprocess, preprocessing); split rule UP.

The job returns them in the metadata of its last report (PanDA pilot protocol: metaData): {"%%NAME%%": value} for the
places in the parameters that say %%NAME%% (PanDA wnscript: preGoodRunList), or parameters by name as the object
taskParameters. They are checked with the others as a whole task. What says whose task it is, and what a submission
needs rights for, stays as it was submitted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from shared.task.in_effect import SplitRules
from shared.task.rules import PREPROCESSING, TO_PREPROCESS

#: where the metadata have what the job returns
RETURNED = "taskParameters"
#: parameters that no job sets
FIXED = frozenset({
    "taskName", "userName", "vo", "prodSourceLabel", "taskType", "workingGroup", "gshare", "workQueueName",
    "taskPriority", "currentPriority", "uniqueTaskName", "allowTaskDuplication", "parent_tid", "reqID", "official",
    "skipScout", "preproSpec",
})  # fmt: skip
MOST_SHOWN = 80
#: what a job gives a value: a dataset, a list of files, or any other value as a whole
_UNKNOWN_YET = re.compile(r"%%[A-Za-z0-9_]+%%")


def is_due(rules: SplitRules) -> bool:
    """Whether the task has a pre-processing job that has not succeeded yet."""
    return rules.preprocessing in (TO_PREPROCESS, PREPROCESSING)


def is_unknown_yet(value: Any) -> bool:
    """Whether the pre-processing job gives this its value. Example: %%INDS%%."""
    return isinstance(value, str) and _UNKNOWN_YET.fullmatch(value.removesuffix("/")) is not None


def with_returned(submitted: Mapping[str, Any], metadata: Any) -> dict[str, Any] | str:
    """The parameters of the task with what its job returned, or why they cannot be used.

    Examples: {"nFilesPerJob": 2, "nEvents": 10} with the metadata {"taskParameters": {"nFilesPerJob": 5}} are
    {"nFilesPerJob": 5, "nEvents": 10}; {"dsForIN": "%%INDS%%"} with {"%%INDS%%": "mc.a"} is {"dsForIN": "mc.a"}.
    """
    given = metadata if isinstance(metadata, Mapping) else {}
    values = {name: value for name, value in given.items() if is_unknown_yet(name)}
    returned = given.get(RETURNED, {} if values else None)
    if not isinstance(returned, Mapping):
        shown = "nothing" if returned is None else repr(returned)[:MOST_SHOWN]
        return f"its pre-processing job returned {shown} as {RETURNED} of its metadata; allowed: an object"
    fixed = sorted(FIXED & returned.keys())
    if fixed:
        named = ", ".join(f"{name}={returned[name]!r}"[:MOST_SHOWN] for name in fixed)
        return f"its pre-processing job returned {named}; allowed: parameters other than {', '.join(sorted(FIXED))}"
    found = {name: value if name in FIXED else _filled_in(value, values) for name, value in submitted.items()}
    found |= returned
    left = sorted({one for one in _texts(found) if is_unknown_yet(one)})
    return f"its pre-processing job returned no value for {', '.join(left)}" if left else found


def _filled_in(value: Any, values: Mapping[str, Any]) -> Any:
    """A value with what takes the place of each text that is a name among the values."""
    if isinstance(value, Mapping):
        return {name: _filled_in(one, values) for name, one in value.items()}
    if isinstance(value, list):
        return [_filled_in(one, values) for one in value]
    return values.get(value, value) if isinstance(value, str) else value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping | list):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(one)
    elif isinstance(value, str):
        yield value
