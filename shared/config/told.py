"""To whom the values of runtime parameters are told."""

from __future__ import annotations

from shared.auth import Caller
from shared.auth.access import MEMBERS, OPERATORS, Whose
from shared.auth.named import check_named, check_one_named
from shared.config.declared import find_parameter

#: parameters whose values these check name people, or whose secrets pilots get
NAMING = (check_named, check_one_named)


def is_told(caller: Caller, component: str, key: str, vo: str | None) -> bool:
    """Whether a caller is told what is set.

    To operators alone what names people or secrets, and what no service declares: nobody knows what a plugin keeps
    there. What is set for a VO is told to its members.
    """
    known = find_parameter(component, key)
    if known is None or known.check in NAMING:
        return OPERATORS.allows(caller, Whose())
    return MEMBERS.allows(caller, Whose.of(None, vo))
