"""Which of several split rules of a task are in effect (PanDA: task sizing, order of precedence)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: the first one that is set disables those after it
PRECEDENCE = ("nEventsPerJob", "nFilesPerJob", "nGBPerJob", "tgtNumEventsPerJob", "tgtMaxOutputForNG")
#: rule that definition works out of mergeSpec: whether merge jobs copy their input first (useLocalIO of theirs)
MERGE_LOCAL_IO = "mergeUseLocalIO"
_NOT_SET = (None, False, 0, "", "0", "False", "false", "NULL")


def is_set(value: Any) -> bool:
    """Whether a rule is given: flags and numbers come as booleans, numbers and text."""
    return value not in _NOT_SET


def rules_in_effect(split_rule: Mapping[str, Any]) -> dict[str, Any]:
    """The rules without those that an earlier one disables. Nothing else is changed.

    nEventsPerJob that holds whole files is then a number of files: nEventsPerJob // nEventsPerInputFile. A stored
    nFilesPerJob beside nEventsPerJob counts as disabled, so that the same rules come out however often they are asked.
    Rules that are not in the list (nMaxFilesPerJob, maxWalltime, groupBoundaryID) hold beside any of these.

    Example: {nEventsPerJob: 3000, nEventsPerInputFile: 1000, nFilesPerJob: 5, nGBPerJob: 1} gives
    {nEventsPerJob: 3000, nEventsPerInputFile: 1000, nFilesPerJob: 3}.
    """
    first = next((name for name in PRECEDENCE if is_set(split_rule.get(name))), None)
    rules = {name: value for name, value in split_rule.items() if name == first or name not in PRECEDENCE}
    per_file = split_rule.get("nEventsPerInputFile") or split_rule.get("nEventsPerFile")
    if first == "nEventsPerJob" and is_set(per_file):
        whole_files = _number(rules[first]) // _number(per_file) if _number(per_file) else 0
        if whole_files:
            rules["nFilesPerJob"] = whole_files
    return rules


def _number(value: Any) -> int:
    """A count that may be text; 0 where it is none."""
    try:
        return int(float(value))
    except (TypeError, ValueError, OverflowError):
        return 0
