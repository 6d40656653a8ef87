"""Conditions about task queues that people write, such as `user_group = 'prod' AND tags = 'GPU'`.

The language is that of all criteria (`shared.model.criteria`); an attribute with several values equals each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from shared.model.criteria import CriteriaColumn, SqlCriteria, WrongCriteria
from shared.model.criteria import parse_criteria as parsed
from shared.order.identity import TaskQueueIdentity

#: names of attributes, in the field's spelling too, and what of a task queue they are
ATTRIBUTES: Mapping[str, str] = {
    "vo": "vo", "owner": "user_name", "user_name": "user_name", "ownergroup": "user_group", "user_group": "user_group",
    "cputime": "cpu_segment_s", "cpu_segment_s": "cpu_segment_s", "platform": "platforms", "platforms": "platforms",
    "tag": "tags", "tags": "tags", "jobtype": "job_types", "job_types": "job_types", "sites": "sites",
    "bannedsites": "banned_sites", "banned_sites": "banned_sites",
}  # fmt: skip
_COLUMNS = tuple(
    CriteriaColumn(name, fact, fact, "number" if fact == "cpu_segment_s" else "text")
    for name, fact in ATTRIBUTES.items()
)
ALLOWED = f"allowed: conditions about {', '.join(dict.fromkeys(ATTRIBUTES.values()))}"


class InvalidCriteria(ValueError):
    """A condition that cannot be used; the message says why and what is allowed."""


@dataclass(frozen=True)
class Criteria:
    """A condition that was read."""

    text: str
    _parsed: SqlCriteria = field(repr=False, compare=False)

    def hold_for(self, identity: TaskQueueIdentity) -> bool:
        """Whether a task queue is one of those that are meant."""
        return self._parsed.hold(MappingProxyType(vars(identity)))


@lru_cache(maxsize=1024)
def parse_criteria(text: str) -> Criteria:
    """Read a condition. Raises InvalidCriteria.

    Example: `Owner = 'ann' OR JobType LIKE 'MC%'` holds for the queues of ann and for jobs whose type begins with MC.
    """
    try:
        return Criteria(text, parsed(text, {}, _COLUMNS))
    except WrongCriteria as error:
        raise InvalidCriteria(f"{text[:80]!r}: {error}; {ALLOWED}") from None


def of_value(attribute: str, value: str) -> Criteria:
    """The condition that an attribute has one value, as the field writes limits. Raises InvalidCriteria."""
    name = attribute.lower()
    if name not in ATTRIBUTES:
        raise InvalidCriteria(f"{attribute!r} is not an attribute of a task queue; {ALLOWED}")
    quoted = "'" + value.replace("'", "''") + "'"
    return parse_criteria(f"{name} = {quoted}")
