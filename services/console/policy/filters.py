"""What is written into the box of a list: words like `status=running vo=atlas`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from shared.model.spans import ALLOWED, seconds_of
from shared.model.whole_numbers import LARGEST_ID
from shared.states.job import MEANINGS as JOB_STATES
from shared.states.task import MEANINGS as TASK_STATES

#: a value with spaces stands in quotation marks
_WORD = re.compile(r'\w+="[^"]*"|\S+')
_SIGN = re.compile("[=>]")
#: longer texts are no filters
MOST_CHARACTERS = 500
#: names are found by three letters or digits of theirs: of less the database has no index
_FOUND_BY = re.compile(r"[^\W_]{3}")
TO_BE_FOUND = "three letters or digits together, or more"


@dataclass(frozen=True)
class Word:
    """One word of a filter: the parameter of the API that it becomes, what it means, and what it may be.

    `is_part`: it is a part of what is looked for. `sign`: what stands between it and its value; `>` for a span of time
    that is at least so long.
    """

    parameter: str
    means: str
    choices: Sequence[str] = ()
    is_number: bool = False
    several: bool = False
    is_part: bool = False
    sign: str = "="

    def wrong(self, value: str) -> str:
        """What is allowed instead of a value; empty where it is right."""
        if not value:
            return f"a value behind {self.sign}"
        if self.sign == ">":
            return ALLOWED if span_of(value) is None else ""
        given = value.split(",") if self.several else [value]
        unknown = [one for one in given if self.choices and one not in self.choices]
        if unknown:
            near = get_close_matches(unknown[0], self.choices, n=1)
            return f"{f'{near[0]}? ' if near else ''}one of {', '.join(self.choices)}"
        if self.is_number and not (value.isascii() and value.isdigit() and 0 < int(value[:19]) <= LARGEST_ID):
            return "a whole number greater than zero"
        return TO_BE_FOUND if self.is_part and not can_be_found(value) else ""


@dataclass(frozen=True)
class Wrong:
    """A word that is not understood, and what is allowed."""

    word: str
    allowed: str


@dataclass(frozen=True)
class Filter:
    """What a filter asks the API for, and what is wrong with it."""

    text: str
    asks: Mapping[str, Any]
    wrong: Sequence[Wrong]


TASKS: Mapping[str, Word] = {
    "status": Word("status", "its state; several with commas", tuple(TASK_STATES), several=True),
    "vo": Word("vo", "the VO that it belongs to"),
    "user": Word("user_name", "whose it is"),
    "name": Word("name", "a part of its name; * stands for any text", is_part=True),
    "label": Word("label", "prodSourceLabel: managed, user, ..."),
    "type": Word("task_type", "taskType: prod, anal, ..."),
    "waits": Word("waits_longer_s", "in a state that should pass, and waiting for longer: 15m, 1h, 2d", sign=">"),
}
JOBS: Mapping[str, Word] = {
    "task": Word("task_id", "the task that it is of", is_number=True),
    "status": Word("status", "its state", tuple(JOB_STATES)),
    "queue": Word("queue", "where it runs: QUEUE or QUEUE/TYPE"),
    "user": Word("user_name", "whose it is"),
    "like": Word("like", "failed of the same as this job of the same task", is_number=True),
}


def span_of(value: str) -> float | None:
    """Seconds of a span of time; None: it is none."""
    try:
        return seconds_of(value)
    except ValueError:
        return None


def can_be_found(name: str) -> bool:
    """Whether a part of a name is enough to find it by. Example: mc23 and *.ttb* are; a1 and x.* are not."""
    return _FOUND_BY.search(name) is not None


def quoted(value: str) -> str:
    """A value as it is written into a filter."""
    return f'"{value}"' if re.search(r"\s", value) else value


def _parts(written: str) -> tuple[str, str, str]:
    """Name, sign and value of a word; without a sign a name alone."""
    found = _SIGN.search(written)
    return (written, "", "") if found is None else (written[: found.start()], found[0], written[found.end() :])


@dataclass(frozen=True)
class Begun:
    """The word of a filter that is being written, and what stands before it."""

    before: str
    name: str
    value: str
    has_name: bool


def begun_in(text: str) -> Begun:
    """The last word of a text.

    Example: `vo=atlas status=running,sc` -> before `vo=atlas status=running,`, name status, value sc.
    """
    head, space, last = text[:MOST_CHARACTERS].rpartition(" ")
    name, sign, value = _parts(last)
    if not sign:
        return Begun(head + space, name, "", has_name=False)
    listed, comma, value = value.rpartition(",")
    return Begun(f"{head}{space}{name}{sign}{listed}{comma}", name, value, has_name=True)


def read_filter(text: str, words: Mapping[str, Word]) -> Filter:
    """The words of a filter; each that is wrong is named with what is allowed.

    Example: `status=runing vo=atlas` asks for the VO and says of the other word: running? one of registered, ...
    """
    asks, wrong = dict[str, str](), list[Wrong]()
    if len(text) > MOST_CHARACTERS:
        return Filter(text[:MOST_CHARACTERS], {}, [Wrong(f"{text[:40]}...", f"at most {MOST_CHARACTERS} characters")])
    for written in _WORD.findall(text):
        name, sign, value = _parts(written)
        value = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
        known = words.get(name)
        if known is None or sign != known.sign:
            near = get_close_matches(name, words, n=1)
            hint = f"{near[0]}{words[near[0]].sign}? " if near else ""
            wrong.append(Wrong(written, f"{hint}one of {', '.join(f'{one}{words[one].sign}' for one in words)}"))
        elif allowed := known.wrong(value):
            wrong.append(Wrong(written, allowed))
        elif known.parameter in asks:
            wrong.append(Wrong(written, f"{name}{sign} once"))
        else:
            asks[known.parameter] = f"{span_of(value):g}" if sign == ">" else value
    return Filter(text, asks, wrong)
