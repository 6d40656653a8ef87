"""Pre-processing: a job finds out parameters of its task, which is refined again with them. Pure.

Source: JEDI, Task status (topreprocess, preprocessing); split rule UP.

The job returns them in the metadata of its last report (PanDA pilot protocol: metaData), as the object taskParameters.
They are checked with the others as a whole task. What says whose task it is, and what a submission needs rights for,
stays as it was submitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: the split rule (UP): to do, its job was made, done
USE_PREPRO = "usePrePro"
TO_DO, RUNNING, DONE = 1, 2, 3
#: where the metadata have what the job returns
RETURNED = "taskParameters"
#: parameters that no job sets
FIXED = frozenset({
    "taskName", "userName", "vo", "prodSourceLabel", "taskType", "workingGroup", "gshare", "workQueueName",
    "taskPriority", "currentPriority", "uniqueTaskName", "allowTaskDuplication", "parent_tid", "reqID", "official",
    "skipScout", "preproSpec",
})  # fmt: skip
MOST_SHOWN = 80


def is_due(split_rule: Mapping[str, Any]) -> bool:
    """Whether the task has a pre-processing job that has not succeeded yet."""
    return split_rule.get(USE_PREPRO) in (TO_DO, RUNNING)


def with_state_of(before: Mapping[str, Any], rules: Mapping[str, Any]) -> dict[str, Any]:
    """The rules of a task that is refined, with how far its pre-processing is."""
    return {**rules, **({USE_PREPRO: before[USE_PREPRO]} if USE_PREPRO in before else {})}


def with_returned(submitted: Mapping[str, Any], metadata: Any) -> dict[str, Any] | str:
    """The parameters of the task with what its job returned, or why they cannot be used.

    Example: {"nFilesPerJob": 2, "nEvents": 10} with the metadata {"taskParameters": {"nFilesPerJob": 5}} are
    {"nFilesPerJob": 5, "nEvents": 10}.
    """
    returned = metadata.get(RETURNED) if isinstance(metadata, Mapping) else None
    if not isinstance(returned, Mapping):
        shown = "nothing" if returned is None else repr(returned)[:MOST_SHOWN]
        return f"its pre-processing job returned {shown} as {RETURNED} of its metadata; allowed: an object"
    fixed = sorted(FIXED & returned.keys())
    if fixed:
        named = ", ".join(f"{name}={returned[name]!r}"[:MOST_SHOWN] for name in fixed)
        return f"its pre-processing job returned {named}; allowed: parameters other than {', '.join(sorted(FIXED))}"
    return {**submitted, **returned}
