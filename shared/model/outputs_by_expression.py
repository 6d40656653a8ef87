"""Outputs whose names match an expression: `regex|EXPR` (prun --outputs "regex|a.*\\.root").

As in the field, the expression is told to the pilot in place of a name, and each file of the pilot's list that is no
output by itself belongs to the first expression that is found somewhere in its name. Until the pilot has reported, the
row of such an output is called by the expression and the serial number of its job, so that each job has its own.

Example: `regex|a.*\\.root` of the job with the number 7 is `regex|a.*\\.root|000007`, and then a1.root and a2.root.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from shared.model.expression import InvalidExpression, parse_expression

BY_EXPRESSION = "regex|"
#: files of one job that one expression may stand for
MOST_FILES = 1000
_BEFORE_SERIAL = "|"


def is_by_expression(name: str) -> bool:
    """Whether an output is named by an expression; no file may be called so."""
    return name.startswith(BY_EXPRESSION)


def name_until_reported(told: str, serial: str) -> str:
    """The name of a job's row before its pilot has reported."""
    return f"{told}{_BEFORE_SERIAL}{serial}"


def told_name(lfn: str) -> str:
    """What pilots and people are told: a name as it is, an expression without the number of its job."""
    return lfn.rpartition(_BEFORE_SERIAL)[0] if is_by_expression(lfn) else lfn


def files_by_expression(expected: Sequence[str], listed: Collection[str]) -> dict[str, list[str]]:
    """The listed files of each expected output that is named by an expression, in the order of the list."""
    found: dict[str, list[str]] = {lfn: [] for lfn in expected if is_by_expression(lfn)}
    if not found:
        return {}
    by_name = set(expected)
    for lfn in listed:
        first = None if lfn in by_name else next((one for one in found if _is_found_in(one, lfn)), None)
        if first is not None:
            found[first].append(lfn)
    return found


def _is_found_in(expected: str, lfn: str) -> bool:
    try:
        expression = parse_expression(told_name(expected).removeprefix(BY_EXPRESSION))
    except InvalidExpression:  # what was put in for its placeholders made it one
        return False
    return expression.is_found_in(lfn)
