"""The part of output names that is taken from names of the input.

Source: PanDA client, addNthFieldOfInDSToLFN and addNthFieldOfInFileToLFN.
"""

from __future__ import annotations

from collections.abc import Sequence

from services.job_generation.policy.values import Dataset, Unit
from shared.task.in_effect import SplitRules


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
