"""Roles that groups of several VOs give: each holds for its VO."""

from __future__ import annotations

import pytest

from shared.auth.caller import Caller, Credential
from shared.auth.configuration import USUAL_ROLES


def credential(*groups: str, roles: tuple[str, ...] = (), **more: bool) -> Credential:
    found = frozenset(groups)
    return Credential("ada", frozenset(roles), found, USUAL_ROLES, is_of_every_vo=more.get("is_of_every_vo", False))


@pytest.mark.parametrize(
    ("groups", "own", "everywhere"),
    [
        (("cms/production", "atlas"), (), {"user"}),
        (("cms/production", "atlas", "atlas/production"), (), {"user", "production"}),
        (("cms/production", "atlas/pilot"), (), {"user"}),
        (("cms/production", "cms"), (), {"user", "production"}),
        (("cms", "atlas"), ("production",), {"user", "production"}),
    ],
)
def test_without_a_claimed_vo_a_role_of_one_vo_does_not_hold_in_the_others(
    groups: tuple[str, ...], own: tuple[str, ...], everywhere: set[str]
) -> None:
    assert credential(*groups, roles=own).acting(None).roles == everywhere


def test_a_role_of_one_vo_holds_for_what_belongs_to_that_vo() -> None:
    caller = credential("cms/production", "atlas").acting(None)
    held = {vo: caller.may_for(vo, "production") for vo in ("cms", "atlas", "lhcb", None)}
    assert held == {"cms": True, "atlas": False, "lhcb": False, None: False}
    assert caller.may_for("atlas", "user") and not caller.may_for("lhcb", "user")
    assert not caller.may("production") and hash(caller) is not None


def test_a_claimed_vo_gives_its_roles_and_takes_those_of_others() -> None:
    of_both = credential("cms/production", "atlas")
    assert of_both.acting("cms").may_for("cms", "production")
    assert not of_both.acting("atlas").may_for("cms", "production", "user")


def test_production_acts_for_its_vos_and_operators_and_those_of_every_vo_for_all() -> None:
    for caller, vo, may in (
        (Caller("p", frozenset({"production"}), frozenset({"cms"})), "cms", True),
        (Caller("p", frozenset({"production"}), frozenset({"cms"})), "atlas", False),
        (Caller("p", frozenset({"production"}), frozenset({"cms"})), "", True),
        (Caller("p", frozenset({"production"}), frozenset()), "atlas", True),
        (Caller("o", frozenset({"operator"}), frozenset({"cms"})), "atlas", True),
    ):
        assert caller.may_for(vo, "production") is may, (caller, vo)
