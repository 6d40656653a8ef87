"""The part of output names that is taken from names of the input.

Source: PanDA client, addNthFieldOfInDSToLFN and addNthFieldOfInFileToLFN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

from services.job_generation.policy.values import Dataset, Template, Unit
from shared.task.in_effect import SplitRules

_MIDDLE_NAME = "${MIDDLENAME}"
_PLACEHOLDER = re.compile(r"\$\{[^{}]*\}")


def middle_name(name: str, fields: Sequence[int]) -> str:
    """These fields of a name, counted from 1 and parted by dots, each with a dot before it.

    A field that the name has not is left out. Example: fields 2 and 4 of mc.700123.evnt.e8500 are ".700123.e8500".
    """
    parts = name.split(".")
    return "".join(f".{parts[field - 1]}" for field in fields if field <= len(parts))


def middle_name_of_job(rules: SplitRules, master: Dataset, units: Sequence[Unit]) -> str:
    """${MIDDLENAME} of a job: of its files, which all have the same, or of its dataset; else empty."""
    if not rules.name_fields or not units:
        return ""
    return middle_name(units[0].lfn if rules.names_from_files else master.short_name, rules.name_fields)


def middle_name_in_outputs(templates: Sequence[Template]) -> Callable[[Sequence[Unit]], str]:
    """Reads the middle name of unmerged outputs of one job from their names; empty where none has one.

    Example: with the template a${MIDDLENAME}.7._${SN/P}.root it is ".mc23" of panda.um.a.mc23.7._000001.root.
    """
    patterns = [_pattern(one.file_name) for one in templates if _MIDDLE_NAME in one.file_name]

    def read(units: Sequence[Unit]) -> str:
        found = (pattern.search(unit.lfn) for pattern in patterns for unit in units)
        return next((one["middle"] for one in found if one), "")

    return read


@cache
def _pattern(file_name: str) -> re.Pattern[str]:
    before, _, after = file_name.partition(_MIDDLE_NAME)
    return re.compile(rf"{_any(before)}(?P<middle>(?:\.[^.]+)*?){_any(after)}")


def _any(text: str) -> str:
    """The part of a template as an expression: what follows from a job may be anything."""
    return r"[^.]*?".join(re.escape(one) for one in _PLACEHOLDER.split(text))
