"""Limits of what may run, and delays between matches, at a site (DIRAC: matching, limits and delays).

    RUNNING_LIMITS  = {"SITE or *": {"CRITERIA": most, "Attribute": {"value": most}}}
    MATCHING_DELAYS = {"SITE or *": {"CRITERIA": seconds, "Attribute": {"value": seconds}}}

At or above the limit no more jobs of the task queues that are meant go to the site. After a match of such a queue none
goes there for the seconds of its delay.

Example: {"ALPHA": {"JobType": {"merge": 20}, "user_group = 'prod' AND tags = 'GPU'": 4}}.

A VO may have a configuration of its own: then its task queues follow that one alone, and count for no rule of the
general one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from shared.order.criteria import Criteria, InvalidCriteria, of_value, parse_criteria
from shared.order.identity import TaskQueueIdentity

EVERY_SITE = "*"
MOST_RULES = 10_000


class InvalidLimits(ValueError):
    """Everything that is wrong with a configuration, one line each."""


@dataclass(frozen=True)
class SiteRule:
    """What holds at a site for the task queues that are meant.

    `number`: jobs of a limit, seconds of a delay. `vo`: whose rule it is, None for one of the general configuration,
    which means nobody of the VOs in `not_of`: they have their own.
    """

    site: str
    criteria: Criteria
    number: float
    vo: str | None = None
    not_of: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """As people read it."""
        whose = "" if self.vo is None else f" of VO {self.vo}"
        place = "every site" if self.site == EVERY_SITE else self.site
        return f"{self.criteria.text}{whose} at {place}: {self.number:g}"

    def means(self, site: str, identity: TaskQueueIdentity) -> bool:
        """Whether it holds for a task queue at a site."""
        if self.site not in (site, EVERY_SITE):
            return False
        is_theirs = identity.vo not in self.not_of if self.vo is None else identity.vo == self.vo
        return is_theirs and self.criteria.hold_for(identity)


def rules_of_vos(general: Any, by_vo: Mapping[str, Any], where: str) -> tuple[SiteRule, ...]:
    """The rules of the general configuration and of the VOs that have one, in the order of their names.

    Raises InvalidLimits. Example: with {"*": {"JobType": {"merge": 20}}} in general and {} for the VO cms, merge jobs
    of all VOs but cms are counted together, and cms has no limit.
    """
    found = [replace(one, not_of=frozenset(by_vo)) for one in rules_of(general, where)]
    for vo in sorted(by_vo):
        found += [replace(one, vo=vo) for one in rules_of(by_vo[vo], f"{where} of VO {vo}")]
    return tuple(found)


def rules_of(configured: Any, where: str) -> tuple[SiteRule, ...]:
    """The rules of a configuration, in its order.

    Raises InvalidLimits with every problem and where it stands.
    """
    if configured is None:
        return ()
    problems: list[str] = []
    rules: list[SiteRule] = []
    for site, listed in _items(configured, where, problems):
        for key, given in _items(listed, f"{where}/{site}", problems):
            place = f"{where}/{site}/{key}"
            try:
                if isinstance(given, Mapping):
                    for value, number in given.items():
                        criteria = of_value(key, str(value))
                        rules.append(SiteRule(site, criteria, _number(number, f"{place}/{value}")))
                else:
                    rules.append(SiteRule(site, parse_criteria(key), _number(given, place)))
            except InvalidCriteria as error:
                problems.append(f"{place}: {error}")
            except InvalidLimits as error:
                problems.append(str(error))
    if len(rules) > MOST_RULES:
        problems.append(f"{where}: {len(rules)} rules; allowed: at most {MOST_RULES}")
    if problems:
        raise InvalidLimits("\n".join(problems))
    return tuple(rules)


def _items(given: Any, where: str, problems: list[str]) -> Iterable[tuple[str, Any]]:
    if isinstance(given, Mapping):
        return [(str(key), value) for key, value in given.items()]
    problems.append(f"{where}: {given!r} must be an object")
    return ()


def _number(given: Any, where: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1e9:
        raise InvalidLimits(f"{where}: {given!r} must be a number from 0 to 1,000,000,000")
    return float(given)


def room(limit: float, n_running: int) -> int:
    """How many more jobs may be handed out. Example: 7 of a limit of 10 with 3 running."""
    return max(0, int(limit) - n_running)


def n_meant(rule: SiteRule, running: Iterable[tuple[str, TaskQueueIdentity, int]], site: str) -> int:
    """How many of the running jobs (site, task queue, number) count for the rule at the site."""
    return sum(count for at, identity, count in running if at == site and rule.means(site, identity))
