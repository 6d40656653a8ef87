"""Zero share: the small language of a queue's `fairsharepolicy` (PanDA brokerage: Zero Share).

A policy is `<subpolicy>,<subpolicy>,...`; a sub-policy is `<key><filter>:<value>`. The first sub-policy that applies
decides: value 0 turns the work away, any other value takes it; if none applies the work is taken.

==========  ======================================  ============================================================
key         filter                                  compared with
==========  ======================================  ============================================================
priority    one of > < >= <= == != and a number     current priority; not looked at for merge jobs
type        = and an expression                     processing type of the task, as one of `TYPES`
group       = and an expression                     working group
gshare      = and an expression                     global share
==========  ======================================  ============================================================

An expression is a regular expression (in RE2's syntax) for the whole word, where `*` alone stands for any characters
and `any` for everything. Several conditions may be joined by colons (`type=evgen:group=Higgs:0%`): all must hold.

Policies are parsed once. What the field's own system takes silently (spaces, `=>`, a missing value, an unknown type) is
refused when the queue is loaded.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from shared.model.expression import Expression, InvalidExpression, parse_expression
from shared.model.problems import Problem
from shared.model.queue import Queue

FIELD = "fairsharepolicy"
ANY, OTHERS, TEST = "any", "others", "test"
KEYS = ("priority", "type", "group", "gshare")
TYPES = ("evgen", "simul", "reprocessing", TEST, "group", "deriv", "pile", "merge", OTHERS)
TEST_TYPES = frozenset({TEST, "prod_test", "validation", "ptest", "rc_test", "rc_test2", "rc_alrb"})

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_CONDITION = re.compile(r"(?P<key>[a-zA-Z_]+)(?P<operator>[<>=!]+)(?P<operand>.*)", re.DOTALL)
# A star stands for any characters, unless it already repeats what is before it.
_BARE_STAR = re.compile(r"(?<![.\])}])\*")


class InvalidPolicy(ValueError):
    """A policy that cannot be used; the message names the sub-policy and what is allowed."""


@dataclass(frozen=True)
class Work:
    """What policies are asked about. `type` is one of `TYPES`; `ignore_priority` for merge jobs."""

    type: str = OTHERS
    group: str = ""
    gshare: str = ""
    priority: int = 0
    ignore_priority: bool = False


def work_of(processing_type: str, group: str, gshare: str, priority: int, *, ignore_priority: bool = False) -> Work:
    """Work as policies see it: the test types are one, and types that no policy can name are `others`."""
    if processing_type in TEST_TYPES:
        return Work(TEST, group, gshare, priority, ignore_priority)
    return Work(processing_type if processing_type in TYPES else OTHERS, group, gshare, priority, ignore_priority)


@dataclass(frozen=True)
class Condition:
    """One condition: `pattern` for words (None: everything), `limit` for priorities."""

    key: str
    pattern: Expression | None = None
    compare: str = ""
    limit: int = 0

    def holds(self, work: Work) -> bool:
        if self.key == "priority":
            return _COMPARE[self.compare](work.priority, self.limit)
        return self.pattern is None or self.pattern.matches_all_of(getattr(work, self.key))


@dataclass(frozen=True)
class SubPolicy:
    """Its conditions must all hold; `share` is a percentage of which only zero means anything."""

    conditions: tuple[Condition, ...]
    share: float

    def applies(self, work: Work) -> bool:
        asked = [one for one in self.conditions if not (work.ignore_priority and one.key == "priority")]
        return bool(asked) and all(one.holds(work) for one in asked)


@dataclass(frozen=True)
class Policy:
    """A whole policy; without sub-policies everything is taken."""

    text: str = ""
    parts: tuple[SubPolicy, ...] = ()

    def text_of(self, place: int) -> str:
        """The sub-policy at a place (from 1) as it was written."""
        return self.text.split(",")[place - 1]

    def turns_away(self, work: Work) -> int:
        """The place (from 1) of the sub-policy that turns the work away; 0 if the work is taken.

        Test work is always taken. Why: the owner of a queue refuses a kind of work, or takes it from some priority
        on, without a quota. Source: PanDA brokerage, Zero Share.

        Example: `priority>500:100%,type=any:0%` takes work of priority 501 by its first sub-policy and turns work of
        priority 500 away by its second.
        """
        if work.type == TEST:
            return 0
        for place, part in enumerate(self.parts, start=1):
            if part.applies(work):
                return place if part.share == 0 else 0
        return 0


@lru_cache(maxsize=4096)
def parse_policy(text: str) -> Policy:
    """Parse and check a policy. Raises InvalidPolicy naming the first sub-policy that is wrong, and why."""
    if not text:
        return Policy()
    return Policy(text, tuple(_sub_policy(part) for part in text.split(",")))


def _sub_policy(text: str) -> SubPolicy:
    if text != text.strip() or not text:
        raise InvalidPolicy(f"{text!r}: a sub-policy must not be empty nor begin or end with a space")
    *conditions, value = text.split(":")
    if not conditions:
        raise InvalidPolicy(f"{text!r}: must be <key><filter>:<value>, such as type=evgen:100%")
    number = value.removesuffix("%")
    try:
        share = float(number)
    except ValueError:
        share = -1.0
    if not 0 <= share < float("inf") or number != number.strip():
        raise InvalidPolicy(f"{text!r}: value {value!r} is not a number of zero or more, with or without %")
    return SubPolicy(tuple(_condition(one, text) for one in conditions), share)


def _condition(text: str, whole: str) -> Condition:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise InvalidPolicy(f"{whole!r}: {text!r} is not <key><filter> without spaces, such as priority>500")
    key, sign, operand = match["key"], match["operator"], match["operand"]
    if key not in KEYS:
        raise InvalidPolicy(f"{whole!r}: key {key!r} is unknown; allowed: {', '.join(KEYS)}")
    if operand != operand.strip() or not operand:
        raise InvalidPolicy(f"{whole!r}: {operand!r} must not be empty nor begin or end with a space")
    if key == "priority":
        if sign not in _COMPARE:
            raise InvalidPolicy(f"{whole!r}: operator {sign!r} is unknown; allowed: {' '.join(_COMPARE)}")
        if not re.fullmatch(r"-?\d+", operand):
            raise InvalidPolicy(f"{whole!r}: priority {operand!r} is not a whole number")
        return Condition(key, compare=sign, limit=int(operand))
    if sign != "=":
        raise InvalidPolicy(f"{whole!r}: operator {sign!r} is not allowed for {key}; only = is")
    return Condition(key, pattern=_pattern(key, operand, whole))


def _pattern(key: str, operand: str, whole: str) -> Expression | None:
    """The expression of a condition; one for a type must match a type that exists."""
    if operand == ANY:
        return None
    try:
        pattern = parse_expression(_BARE_STAR.sub(".*", operand))
    except InvalidExpression as error:
        raise InvalidPolicy(f"{whole!r}: {key} {error}") from error
    if key == "type" and not any(pattern.matches_all_of(one) for one in TYPES):
        raise InvalidPolicy(f"{whole!r}: type {operand!r} matches none of: {', '.join((*TYPES, ANY))}")
    return pattern


def check_zero_share(queue: Queue) -> Iterable[Problem]:
    """For `parse_grid(checks=...)`: a queue whose policy cannot be used is refused."""
    try:
        parse_policy(queue.fair_share_policy)
    except InvalidPolicy as error:
        yield Problem("queues.json", queue.name, FIELD, str(error))


def policy_of(queue: Queue) -> Policy:
    """The policy of a loaded queue. One that was loaded before it was checked takes nothing away."""
    try:
        return parse_policy(queue.fair_share_policy)
    except InvalidPolicy:
        return Policy(queue.fair_share_policy)
