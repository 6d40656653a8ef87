"""Requirements of sites and tasks that were written to hold whoever evaluates them."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from shared.brokerage.matchmaking import Advert, JobFacts, accepted, matches, parsed, refusal
from shared.brokerage.requirements_text import DEEPEST, MOST_CHARACTERS, problem_of

JOB = JobFacts(1, "ada", 100, 1, 2000)
#: of one expression, however hostile, from its text to its answer
BUDGET_S = 0.02


def doubling(operation: str, first: str, n: int) -> str:
    """A record whose attributes each ask for the one before twice."""
    steps = ";".join(f"a{i}={operation.format(f'a{i - 1}')}" for i in range(1, n))
    return f"[a0={first};{steps}].a{n - 1} =!= 0"


HOSTILE = {
    "a record that doubles": doubling("{0}+{0}", "1", 25),
    "a record of texts that double": doubling("strcat({0},{0})", '"xxxxxxxx"', 18),
    "itself, twice": "Requirements && Requirements",
    "each other, twice": "TARGET.Requirements && TARGET.reQuirements",
    "in quotes": "'Requirements' || 'Requirements'",
    "patterns": 'regexp("(a|a?)+$", Owner)',
    "patterns in quotes": "'regexp'(\"(a|a?)+$\", Owner)",
    "patterns behind a comment": '1 /* " */ + regexp("a", "b") /* " */',
    "patterns in a text of code": 'eval("regexp(\\"(a|a?)+$\\", Owner)")',
    "growth": 'strcat(' * 15 + '"x"' + ',"x")' * 15 + ' == ""',
    "powers": " && ".join(["pow(9.9, 99) > 0"] * 100),
    "chance": "random(100) < 50",
    "time": "time() > 0",
    "lists in lists": "member(1, {" * 60 + "1" + "})" * 60,
    "brackets": "(" * 900 + "true" + ")" * 900,
    "choices": "true ? " * 150 + "1" + " : 2" * 150,
    "negations": "!" * 1900 + "true",
    "a long list": "member(1, {" + ",".join(["2"] * 900) + "})",
    "a long text": 'Owner == "' + "x" * 100_000 + '"',
    "a text that does not end": 'Owner == "' + '\\"' * 900,
    "blanks": " " * 100_000 + "true",
}  # fmt: skip
#: the dearest that are allowed
DEAR = {
    "as many terms as may be": " && ".join(["Big == Big"] * 125),
    "long texts, made anew": "&&".join(['toUpper(Big)!=toLower("a")'] * 50),
    "deep": "toLower(" * DEEPEST + "Big" + ")" * DEEPEST + ' == "a"',
    "a list as long as may be": "member(Big, {" + ",".join(["Big"] * 240) + "})",
    "negations": " && ".join(["!" * 20 + "true"] * 22),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_expression_is_refused_where_it_enters_and_costs_little_where_it_was_stored(name: str) -> None:
    with pytest.raises(ValueError, match=r"allowed|not a ClassAd expression"):
        parsed(HOSTILE[name])
    problem_of.cache_clear()
    started = time.process_time()
    of_site = refusal(Advert("A", requirements=HOSTILE[name]), replace(JOB, requirements=HOSTILE[name]))
    of_task = refusal(Advert("A"), replace(JOB, requirements=HOSTILE[name]))
    assert accepted(Advert("A", requirements=HOSTILE[name]), [JOB] * 100) == [False] * 100
    assert time.process_time() - started < BUDGET_S
    assert of_site is not None and of_site.whose == "site" and "cannot be read" in of_site.reason
    assert of_task is not None and of_task.whose == "task" and len(of_task.reason) < 1000


@pytest.mark.parametrize("name", DEAR)
def test_the_dearest_that_is_allowed_has_its_answer_within_the_budget(name: str) -> None:
    assert problem_of(DEAR[name]) is None, problem_of(DEAR[name])
    problem_of.cache_clear()
    site = Advert("A", attributes={"Big": "x" * 500}, requirements=DEAR[name])
    started = time.process_time()
    refusal(site, replace(JOB, requirements=DEAR[name]))
    assert time.process_time() - started < BUDGET_S


@pytest.mark.parametrize("attributes", [{"Big": "x" * 501}, {f"A{n}": 1 for n in range(101)}])
def test_attributes_that_are_too_many_or_too_long_make_an_advertisement_unreadable(attributes) -> None:
    why = refusal(Advert("A", attributes=attributes), JOB)
    assert why is not None and "allowed: at most" in why.reason and len(why.reason) < 300


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x" * (MOST_CHARACTERS + 1), "2001 characters are not allowed; allowed: at most 2000"),
        ("a, " * 250 + "a", "501 names, values and operators are not allowed; allowed: at most 500"),
        ("(" * 21, "21 brackets, choices or signs in each other are not allowed; allowed: at most 20"),
        ("[a=1].a", "'[a=1].a' is not allowed; allowed: comparisons of names, numbers and texts in double quotes, "
         "with brackets, lists in {} and functions; no records, comments or quoted names"),
        ("Pow(2, 3)", "function Pow is not allowed, as nothing bounds its time; allowed: comparisons and the functions "
         "member, identicalMember, size, "),
        ("MY.Requirements", "Requirements is not allowed as a name in an expression; allowed: other attributes"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_is_allowed(text: str, problem: str) -> None:
    assert (problem_of(text) or "").startswith(problem)


@pytest.mark.parametrize(
    "text",
    [
        '(TARGET.Owner is ("ada")) && MY.MaxJobs =?= undefined || x isnt (3)', "TARGET.RequestMemory <= 1.6e+4 / 1",
        "ifThenElse(isUndefined(Station), true, Station == \"a \\\" // [b] /* 'c'\")", "-1 < 2 && !false && 0x10 == 16",
        'stringListMember(Owner, "ada,bob") || member(Owner, {"ada", "bob"})',
        "\tTARGET.RequestCpus >= 1\n  && TARGET.RequestCpus << 1 < 100 ? true : false",
    ],
)  # fmt: skip
def test_what_sites_write_is_allowed(text: str) -> None:
    assert problem_of(text) is None
    assert isinstance(matches(Advert("A", max_jobs=3, requirements=text), JOB), bool)
