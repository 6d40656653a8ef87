"""Rules that a VO adds are refused by name where they are impossible, overlap or can never fire."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.watchdog.policy.rule_problems import problems_of
from shared.timeouts.built_in import RULES
from shared.timeouts.limits import DEFAULTS, TimeLimits
from shared.timeouts.rule import Condition, Since, TimeRule

ATLAS = Condition(vo="atlas")
RULE = TimeRule("impatient", ("activated",), Since.STATE_CHANGE, 12.0, "closed", 105, "operations", ATLAS)


def refused(*rules: TimeRule, limits: TimeLimits = DEFAULTS) -> list[tuple[str, str]]:
    """Field and what is said of it, for each problem."""
    return [(one.field, str(one)) for one in problems_of(rules, RULES, limits)]


def test_a_rule_that_ends_jobs_sooner_than_those_of_the_field_is_taken() -> None:
    special = replace(RULE, name="urgent", limit=1.0, when=replace(ATLAS, least_priority=900))
    assert refused(RULE, special) == [] and refused(replace(RULE, limit=47.9)) == []


def test_the_rules_of_the_field_have_names_of_their_own_and_possible_next_states() -> None:
    assert problems_of([], RULES) == [] and len({rule.name for rule in RULES}) == len(RULES)


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"states": ("queued",)}, "states", "allowed: pending"),
        ({"states": ("finished",)}, "states", "allowed: pending"),
        ({"states": ()}, "states", "allowed: pending"),
        ({"limit": -1.0}, "limit_h", "allowed: from"),
        ({"limit": 0.0}, "limit_h", "allowed: from"),
        ({"limit": float("nan")}, "limit_h", "allowed: from"),
        ({"limit": 1e6}, "limit_h", "allowed: from"),
        ({"next_state": "running"}, "next_state", "allowed: closed, failed"),
        ({"next_state": "failed"}, "next_state", "impossible: no job goes there that is activated"),
        ({"since": Since.HEARTBEAT}, "since", "impossible: nobody reports a job that is activated"),
        ({"when": replace(ATLAS, least_priority=900, most_priority=800)}, "when", "impossible: no priority"),
        ({"when": replace(ATLAS, queue_statuses=("paused",))}, "when.queue_statuses", "allowed: online"),
        ({"when": replace(ATLAS, queue_statuses=("openn",))}, "when.queue_statuses", "allowed: online"),
        ({"when": replace(ATLAS, no_start_for_h=-2.0)}, "when.no_start_for_h", "allowed: more than 0"),
        ({"limit": 48.0}, "limit_h", "unreachable: activated ends these jobs no later"),
        ({"limit": 60.0, "when": replace(ATLAS, labels=("user",))}, "limit_h", "unreachable: activated"),
        ({"name": "activated"}, "name", "2 rules have it"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_by_its_name(changes: dict[str, object], field: str, says: str) -> None:
    rule = replace(RULE, **changes)
    ((where, said),) = refused(rule)
    assert where == f"rules.{rule.name}.{field}" and says in said


def test_two_rules_of_which_neither_is_the_special_case_are_refused() -> None:
    users = replace(RULE, name="users", limit=6.0, when=replace(ATLAS, labels=("user",)))
    urgent = replace(RULE, name="urgent", limit=3.0, when=replace(ATLAS, least_priority=900))
    ((field, said),) = refused(users, urgent)
    assert field == "rules.urgent.when" and "overlaps users" in said
    apart = replace(urgent, when=replace(ATLAS, least_priority=900, labels=("managed",)))
    assert refused(users, apart) == []
    assert "overlaps impatient" in refused(RULE, replace(RULE, name="again", limit=10.0))[0][1]


def test_a_special_case_that_waits_longer_than_the_general_one_never_fires() -> None:
    longer = replace(RULE, name="patient", limit=24.0, when=replace(ATLAS, labels=("user",)))
    ((field, said),) = refused(RULE, longer)
    assert field == "rules.patient.limit_h" and "unreachable: impatient" in said


def test_what_is_reachable_follows_the_limits_that_are_set() -> None:
    day = replace(RULE, limit=24.0)
    assert refused(day) == []
    assert "unreachable: activated" in refused(day, limits=TimeLimits(hours={"activated": 20.0}))[0][1]
    assert refused(replace(RULE, limit=100.0), limits=TimeLimits(hours={"activated": 0.0})) == []
