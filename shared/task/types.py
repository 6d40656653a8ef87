"""Types of a task's parameters with their ranges: what is outside is refused with the range."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from shared.model.queue import Connectivity
from shared.model.whole_numbers import LARGEST_ID

#: sites or queues that a task names in one list
MOST_NAMES = 5000
#: points of a search, and jobs that evaluate them
MOST_POINTS, MOST_JOBS = 100_000, 1_000_000


#: how programs write whether something is so, beside true and false
_TRUTHS = {"true": True, "false": False}


def flag(value: Any) -> Any:
    """0 and 1 count as false and true, and so do "False" and "true"; the rest is left to the check."""
    if isinstance(value, str):
        return _TRUTHS.get(value.strip().lower(), value)
    return bool(value) if type(value) is int and value in (0, 1) else value


def comma_list(value: Any) -> Any:
    """ "a, b" as ["a", "b"]."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def at_most(n_allowed: int) -> BeforeValidator:
    """Counted before any of them is looked at: a list that is no part of `files` is checked in one go."""

    def check(value: Any) -> Any:
        """The value as it came, a list or a text with commas; ValueError if it has too many members."""
        n_sent = value.count(",") + 1 if isinstance(value, str) else len(value) if isinstance(value, list) else 0
        if n_sent > n_allowed:
            raise ValueError(f"{n_sent} are not allowed; at most {n_allowed} are")
        return value

    return BeforeValidator(check)


def as_text(value: Any) -> Any:
    """A number as text."""
    return str(value) if type(value) is int else value


def _as_list(value: Any) -> Any:
    """One number, or a text with commas, as a list: "5,6" is [5, 6]."""
    if isinstance(value, str) and re.fullmatch(r"\d{1,15}(\s*,\s*\d{1,15})*", value.strip(), re.ASCII):
        return [int(one) for one in value.split(",")]
    return [value] if type(value) is int else value


def _known_connectivity(stated: str) -> str:
    """`network_connectivity#ip_stack`, either part may be left out."""
    network, _, stack = stated.partition("#")
    if network not in ("", *Connectivity) or stack not in ("", "IPv4", "IPv6"):
        raise ValueError(f"allowed: {', '.join(Connectivity)}, followed by #IPv4 or #IPv6 if only that stack will do")
    return stated


Flag = Annotated[bool, BeforeValidator(flag), Field(strict=True)]
Text32 = Annotated[str, Field(max_length=32, strict=True)]
LongText = Annotated[str, Field(max_length=20_000, strict=True)]
NameList = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=255)]], BeforeValidator(comma_list), at_most(MOST_NAMES)
]
#: fields of a name, counted from 1: "2,6"
FieldNumbers = Annotated[str, BeforeValidator(as_text), Field(pattern=r"^[1-9][0-9]?(,[1-9][0-9]?){0,9}$", strict=True)]
Network = Annotated[str, AfterValidator(_known_connectivity)]
Files = Annotated[int, Field(ge=1, le=10**9, strict=True)]
Events = Annotated[int, Field(ge=1, le=10**12, strict=True)]
Gigabytes = Annotated[int, Field(ge=1, le=10**6, strict=True)]
Megabytes = Annotated[int, Field(ge=1, le=10**7, strict=True)]
Hours = Annotated[int, Field(ge=1, le=10_000, strict=True)]
Percent = Annotated[int, Field(ge=1, le=100, strict=True)]
Tenths = Annotated[int, Field(ge=0, le=10, strict=True)]
MostCores = Annotated[int, Field(ge=1, le=1024, strict=True)]
Weight = Annotated[int, Field(ge=-1, le=10_000, strict=True)]
OwnPriority = Annotated[int, Field(ge=-1000, le=1000, strict=True)]
Attempts = Annotated[int, Field(ge=1, le=100, strict=True)]
Boundary = Annotated[int, Field(ge=1, le=4, strict=True)]
#: jobs that process the same input at once
Consumers = Annotated[int, Field(ge=1, le=100, strict=True)]
Sites = Annotated[int, Field(ge=1, le=20, strict=True)]
Points = Annotated[int, Field(ge=1, le=MOST_POINTS, strict=True)]
SearchJobs = Annotated[int, Field(ge=1, le=MOST_JOBS, strict=True)]
Identifier = Annotated[int, Field(ge=0, le=LARGEST_ID, strict=True)]
Identifiers = Annotated[list[Identifier], BeforeValidator(_as_list)]
DestinationName = Annotated[str, Field(max_length=60, strict=True)]
