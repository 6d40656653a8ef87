"""Criteria in SQL's language: what holds, what is refused and where, and the statement that they become."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.task_definition.desk.policy.work_queues import COLUMNS
from shared.model.criteria import WrongCriteria, parse_criteria, parse_variables

FACTS = {
    "prod_source_label": "managed", "working_group": "GP_HIGGS", "processing_type": "evgen", "core_count": 8,
    "site": None, "event_service": 0, "split_rule_names": "nEventsPerJob,skipScout", "campaign": "MC23",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "variables", "expected"),
    [
        ("processingType IN (:p1,:p2)", "p1:evgen,p2:simul", True),  # the table's own examples
        ("workingGroup LIKE :p1", "p1:GP_%", True),
        ("workingGroup LIKE 'GP\\_H%'", "", True),
        ("workingGroup LIKE 'GP\\__'", "", False),
        ("workingGroup NOT LIKE 'AP%'", "", True),
        ("PROCESSINGTYPE = 'evgen' AND coreCount >= 8", "", True),
        ("coreCount > 8 OR campaign = 'MC23'", "", True),
        ("NOT (coreCount = 8)", "", False),
        ("coreCount BETWEEN 2 AND :most", "most:16", True),
        ("coreCount <> -1", "", True),
        ("site = 'X' OR NOT site = 'X'", "", False),  # null is neither
        ("site IS NULL AND campaign IS NOT NULL", "", True),
        ("site NOT IN ('X')", "", False),
        ("splitRule LIKE '%skipScout%'", "", True),
    ],
)
def test_criteria_hold_as_in_sql(text: str, variables: str, expected: bool) -> None:
    assert parse_criteria(text, parse_variables(variables), COLUMNS).hold(FACTS) is expected


@pytest.mark.parametrize(
    ("text", "variables", "said"),
    [
        ("status = 'running'", "", "column 1: unknown column status; allowed: prodSourceLabel, workingGroup"),
        ("coreCount = 1 AND ramCount = 1", "", "column 19: unknown column ramCount"),
        ("campaign ~ 'MC.*'", "", "is not allowed; allowed: =, <>"),
        ("lower(campaign) = 'x'", "", "stands where a column must"),
        ("campaign = (SELECT 1)", "", "stands where a value must"),
        ("campaign IN (SELECT 1)", "", "is not allowed"),
        ("campaign LIKE 'a!%' ESCAPE '!'", "", "ESCAPE is not allowed"),
        ("campaign ILIKE 'a'", "", "ILIKE is not allowed"),
        ("coreCount BETWEEN SYMMETRIC 9 AND 1", "", "is not allowed"),
        ("campaign = 'a'; DROP TABLE tasks", "", "one condition is allowed"),
        ("campaign LIKE", "", "column 13"),
        ("campaign = 'x' AND exists(select 1)", "", "column 20: EXISTS is not allowed"),
        ("(select 1) = 1", "", "column 1: SUBQUERY stands where a column must"),
        ("campaign = :p1", "", "the variable :p1 has no value"),
        ("campaign = 'x'", "p1:x", "p1 not in the criteria"),
        ("coreCount = 'many'", "", "value 'many': allowed: a whole number"),
        ("coreCount LIKE '8'", "", "the column is a number"),
        ("campaign > 'a'", "", "texts have no order"),
        ("tasks.campaign = 'a'", "", "stands where a column must"),
        ("", "", "one condition"),
        ("campaign = 'x' OR " * 120 + "campaign = 'x'", "", "at most 2000"),
        ("(" * 60 + "campaign = 'x'" + ")" * 60, "", "nested too deeply"),
    ],
)
def test_what_is_not_listed_is_refused_with_its_place(text: str, variables: str, said: str) -> None:
    with pytest.raises(WrongCriteria, match=r"criteria|variables") as refusal:
        parse_criteria(text, parse_variables(variables), COLUMNS)
    assert said in str(refusal.value)


@pytest.mark.parametrize("variables", ["p1", "1p:x", "p1:a,p1:b"])
def test_variables_are_names_with_values(variables: str) -> None:
    with pytest.raises(WrongCriteria):
        parse_variables(variables)


def test_a_statement_has_values_as_parameters_only() -> None:
    text = "workingGroup LIKE :p1 AND coreCount IN (1, 8) OR NOT campaign = 'x'' OR 1=1'"
    sql, values = parse_criteria(text, {"p1": "GP_%"}, COLUMNS).sql(3)
    assert values == ["GP_%", 1, 8, "x' OR 1=1"]
    assert "x' OR" not in sql and "$3::text" in sql and "IN ($4::bigint, $5::bigint)" in sql and "$6::text" in sql


conditions = st.recursive(
    st.sampled_from(["campaign = 'a'", "campaign IS NULL", "coreCount < 4", "coreCount IN (1, 8)", "site LIKE 'a_%'"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda one: f"({one[0]}) {one[1]} ({one[2]})"),
        inner.map(lambda one: f"NOT ({one})"),
    ),
    max_leaves=6,
)


@given(
    conditions,
    st.fixed_dictionaries(
        {"campaign": st.sampled_from([None, "a", "b"]), "core_count": st.sampled_from([None, 1, 5, 8])}
    ),
)
def test_what_holds_does_not_hold_negated(text: str, facts: dict[str, Any]) -> None:
    holds, not_holds = (parse_criteria(one, {}, COLUMNS).hold(facts) for one in (text, f"NOT ({text})"))
    assert not (holds and not_holds)
