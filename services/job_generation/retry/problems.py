"""What is wrong with rules that somebody wants to use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from services.job_generation.retry.types import ACTIONS, PARAMETERS, SOURCES, RetryRule
from shared.model.expression import InvalidExpression, parse_expression
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem

MOST_ATTEMPTS = 100


def problems_of(rules: Sequence[RetryRule]) -> list[FieldProblem]:
    """Everything that is wrong with these rules taken together, each with the rule's number."""
    found = [one for rule in rules for one in _of_rule(rule)]
    for rule_id, times in sorted(Counter(rule.rule_id for rule in rules).items()):
        if times > 1:
            found.append(
                problem(f"retry_rules.{rule_id}.rule_id", rule_id, f"{times} rules have it; allowed: one of its own")
            )
    return found


def _of_rule(rule: RetryRule) -> list[FieldProblem]:
    found: list[FieldProblem] = []

    def say(field: str, value: object, message: str) -> None:
        """Note what is wrong with a field of the rule."""
        found.append(problem(f"retry_rules.{rule.rule_id}.{field}", value, message))

    if rule.source not in SOURCES:
        say("source", rule.source, f"allowed: {', '.join(SOURCES)}")
    if rule.action not in ACTIONS:
        say("action", rule.action, f"allowed: {', '.join(ACTIONS)}")
    if rule.pattern is not None:
        try:
            parse_expression(rule.pattern)
        except InvalidExpression as error:
            say("pattern", rule.pattern, str(error))
    wanted = PARAMETERS.get(rule.action)
    for name, value in sorted(rule.parameters.items()):
        if name != wanted:
            say(f"parameters.{name}", value, f"allowed with {rule.action}: {wanted or 'none'}")
        elif not 1 <= value <= MOST_ATTEMPTS:
            say(f"parameters.{name}", value, f"allowed: a whole number from 1 to {MOST_ATTEMPTS}")
    if rule.action == "limit_retry" and rule.max_attempt is None:
        say("parameters.maxAttempt", None, f"limit_retry needs it: a whole number from 1 to {MOST_ATTEMPTS}")
    return found
