"""Zero share: every example of the document, every kind of mistake, and what the field's system answers."""

from __future__ import annotations

from typing import Any

import pytest

from services.job_brokerage.policy.grid_checks import GRID_CHECKS
from shared.brokerage.zero_share import InvalidPolicy, parse_policy, work_of
from shared.model.grid import parse_grid
from shared.model.problems import InvalidGrid
from tests.handlers.grids import small_grid
from tests.unit.brokerage.conformance import sample


def taken(policy: str, processing_type: str = "simul", group: str = "", gshare: str = "", priority: int = 100) -> bool:
    return parse_policy(policy).turns_away(work_of(processing_type, group, gshare, priority)) == 0


def test_evgen_and_simul_are_accepted_and_anything_else_has_zero_share() -> None:
    policy = "type=evgen:100%,type=simul:100%,type=any:0%"
    assert [taken(policy, one) for one in ("evgen", "simul", "deriv", "never-heard-of")] == [True, True, False, False]


def test_a_priority_above_the_threshold_is_rejected_then_simul_accepted_and_the_rest_rejected() -> None:
    # The document says "under 500" once and "above 500" elsewhere: above 500 is what the operator says.
    policy = "priority>500:0,type=simul:100%,type=any:0%"
    assert not taken(policy, "simul", priority=501)
    assert taken(policy, "simul", priority=500)
    assert not taken(policy, "evgen", priority=400)


def test_without_a_rejecting_sub_policy_anything_runs() -> None:
    assert taken("type=evgen:100%,type=simul:100%", "deriv")


def test_a_priority_at_the_end_is_not_reached_by_accepted_types() -> None:
    policy = "type=evgen:100%,type=simul:100%,type=any:0%,priority>500:0%"
    assert taken(policy, "evgen", priority=900)
    assert not taken(policy, "deriv", priority=100)


def test_sub_policies_behind_any_are_never_reached() -> None:
    policy = "type=evgen:100%,type=any:0%,gshare=Express:100%,gshare=any:100%"
    assert taken(policy, "evgen")
    assert not taken(policy, "deriv", gshare="Express")


def test_reordered_the_share_is_accepted_before_the_types_are_rejected() -> None:
    policy = "type=evgen:100%,gshare=Express:100%,type=any:0%,gshare=any:100%"
    assert taken(policy, "evgen") and taken(policy, "deriv", gshare="Express")
    assert not taken(policy, "deriv", gshare="MC")


def test_the_wildcard_example_takes_express_and_express_analysis_by_its_first_sub_policy() -> None:
    policy = "gshare=Express*:100%,gshare=any:100%"
    assert taken(policy, gshare="Express") and taken(policy, gshare="Express Analysis") and taken(policy, gshare="MC")
    first, second = parse_policy(policy).parts
    for gshare, by_first in (("Express", True), ("Express Analysis", True), ("MC", False)):
        assert first.applies(work_of("simul", "", gshare, 0)) is by_first
        assert second.applies(work_of("simul", "", gshare, 0))


def test_type_group_and_gshare_may_be_regular_expressions() -> None:
    assert not taken("type=(evgen|simul):0", "evgen") and taken("type=(evgen|simul):0", "deriv")
    assert not taken("group=AP_.*:0", group="AP_Susy") and taken("group=AP_.*:0", group="Higgs")
    assert not taken("gshare=.*Analysis:0", gshare="User Analysis") and taken("gshare=.*Analysis:0", gshare="MC")


@pytest.mark.parametrize("one", ["evgen", "simul", "reprocessing", "group", "deriv", "pile", "merge"])
def test_each_valid_type_is_the_processing_type_of_the_task(one) -> None:
    assert not taken(f"type={one}:0", one) and taken(f"type={one}:0", "others")


def test_the_first_sub_policy_that_applies_decides_whatever_comes_after_it() -> None:
    assert taken("type=evgen:100%,type=evgen:0%,type=any:0%", "evgen")
    assert not taken("type=evgen:0%,type=evgen:100%,type=any:100%", "evgen")


def test_a_wildcard_maps_several_shares_to_one_sub_policy() -> None:
    policy = "gshare=Express*:0%,gshare=any:100%"
    assert not taken(policy, gshare="Express") and not taken(policy, gshare="Express Analysis")
    assert taken(policy, gshare="MC Default")


def test_a_regular_expression_lists_groups() -> None:
    policy = "group=(AP_Higgs|AP_Susy|AP_Exotics|Higgs):0%"
    assert not taken(policy, group="AP_Susy") and not taken(policy, group="Higgs")
    assert taken(policy, group="AP_MCGN") and taken(policy, group="AP_Higgs_2") and taken(policy)


def test_a_percent_sign_changes_nothing_and_only_zero_matters() -> None:
    for value, expected in (("100", True), ("100%", True), ("1", True), ("0", False), ("0%", False), ("0.0", False)):
        assert taken(f"type=simul:{value}") is expected


@pytest.mark.parametrize(
    ("operator", "accepted"),
    [(">", (True, True, False)), ("<", (False, True, True)), (">=", (True, False, False)), ("<=", (False, False, True)),
     ("==", (True, False, True)), ("!=", (False, True, False))],
)  # fmt: skip
def test_every_comparison_operator_works(operator, accepted) -> None:
    assert tuple(taken(f"priority{operator}500:0", priority=one) for one in (499, 500, 501)) == accepted


def test_the_priority_is_not_checked_for_merge_jobs() -> None:
    policy = parse_policy("priority>500:0,type=deriv:0")
    assert policy.turns_away(work_of("simul", "", "", 5000, ignore_priority=True)) == 0
    assert policy.turns_away(work_of("deriv", "", "", 5000, ignore_priority=True)) == 2
    assert policy.turns_away(work_of("simul", "", "", 5000)) == 1


@pytest.mark.parametrize("one", ["prod_test", "validation", "ptest", "rc_test", "rc_test2", "rc_alrb"])
def test_test_types_are_one_and_always_accepted(one) -> None:
    assert work_of(one, "", "", 0).type == "test"
    assert taken("type=any:0%", one)


def test_several_conditions_must_all_hold() -> None:
    policy = "type=evgen:group=Higgs:0%"
    assert not taken(policy, "evgen", group="Higgs")
    assert taken(policy, "evgen", group="Susy") and taken(policy, "simul", group="Higgs")


def test_an_empty_policy_accepts_everything() -> None:
    assert taken("") and parse_policy("").parts == ()


BAD = {
    "type=evgen:0%, type=any:100%": "must not be empty nor begin or end with a space",
    "type = evgen:0%": "is not <key><filter> without spaces",
    "type=evgen :0%": "must not be empty nor begin or end with a space",
    "priority=>300:0": "operator '=>' is unknown; allowed: > < >= <= == !=",
    "priority=300:0": "operator '=' is unknown",
    "priority>high:0": "priority 'high' is not a whole number",
    "type>evgen:0": "operator '>' is not allowed for type; only = is",
    "cloud=US:0": "key 'cloud' is unknown; allowed: priority, type, group, gshare",
    "type=evgen:": "value '' is not a number",
    "type=evgen:some": "value 'some' is not a number",
    "type=evgen:-1": "value '-1' is not a number",
    "type=evgen": "must be <key><filter>:<value>",
    "type=evgn:0": "type 'evgn' matches none of",
    "group=(AP_Higgs|AP_Susy:0": "is not a regular expression",
    "type=evgen:0,": "must not be empty",
}


@pytest.mark.parametrize("policy", BAD)
def test_a_mistake_is_refused_with_the_sub_policy_and_the_reason(policy) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        parse_policy(policy)
    assert BAD[policy] in str(refused.value)


def test_a_queue_with_a_bad_policy_is_refused_when_the_grid_is_loaded() -> None:
    files: dict[str, Any] = small_grid()
    files["queues"]["Q_ALPHA"]["fairsharepolicy"] = "type=evgen:0%, type=any:100%"
    with pytest.raises(InvalidGrid) as refused:
        parse_grid(files, checks=GRID_CHECKS)
    (problem,) = refused.value.problems
    assert (problem.file, problem.key, problem.field) == ("queues.json", "Q_ALPHA", "fairsharepolicy")
    assert "begin or end with a space" in problem.reason


def expected(case: dict[str, Any]) -> bool:
    """What the field's system answers, where the document does not say otherwise."""
    policy, answer = case["in"]["policy"] or "", bool(case["out"]["zero_share"])
    if ":0.0" in policy:
        # There "0.0" is not zero. By the document the value is a number, and zero is zero.
        case["in"]["policy"] = policy.replace(":0.0", ":100")
    return answer


@pytest.mark.parametrize("case", sample("zeroshare")["cases"], ids=lambda case: str(case["in"]["policy"]))
def test_work_is_turned_away_as_in_the_field(case) -> None:
    answer = expected(case)
    task, text = case["in"]["task"], case["in"]["policy"] or ""
    try:
        policy = parse_policy(text)
    except InvalidPolicy:
        # Spaces, "=>", "=" with a priority and missing values are taken there and refused here.
        assert any(mark in text for mark in (" type", " = ", "=>", "priority=4", "priority=9", ":,")) or text[-1] == ":"
        return
    work = work_of(
        task["processing_type"] or "",
        task["working_group"] or "",
        task["gshare"] or "",
        task["priority"],
        ignore_priority=case["in"]["ignore_priority"],
    )
    assert (policy.turns_away(work) > 0) is answer
