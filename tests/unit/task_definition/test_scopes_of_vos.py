"""Which scopes of nobody somebody may take, where several VOs share an installation."""

from __future__ import annotations

import pytest

from services.task_definition.data.policy.scopes import NameWriter, may_take

VOS = frozenset({"atlas", "cms"})


def writer(
    vo: str, name: str, *, produces: bool = False, is_owner: bool = True, groups: frozenset[str] = frozenset()
) -> NameWriter:
    return NameWriter(vo, name, may_write=lambda whose: False, is_producer=produces, is_owner=is_owner, groups=groups)


CMS_PRODUCTION = writer("cms", "cprod", produces=True)
CARL = writer("atlas", "carl", groups=frozenset({"atlas/phys-higgs"}))


@pytest.mark.parametrize(
    ("who", "scope", "expected"),
    [
        (CMS_PRODUCTION, "user.bob", False),
        (CMS_PRODUCTION, "user.bob-atlas", False),
        (CMS_PRODUCTION, "user.bob-cms", True),
        (CMS_PRODUCTION, "group.phys-higgs", False),
        (CMS_PRODUCTION, "group.phys-higgs-cms", True),
        (CMS_PRODUCTION, "group.phys-higgs-atlas", False),
        (CMS_PRODUCTION, "data24_13p6TeV", True),
        (CMS_PRODUCTION, "data-atlas", True),
        (writer("cms", "cprod", produces=True, groups=frozenset({"cms/phys-top"})), "group.phys-top", True),
        (writer("cms", "bob", produces=True, is_owner=False), "user.bob", False),
        (writer("cms", "bob", produces=True, is_owner=False), "user.bob-cms", True),
        (writer("cms", "cms:bob", produces=True, is_owner=False), "user.cms-bob", False),
        (writer("atlas", "bob"), "user.bob", True),
        (writer("atlas", "bob"), "user.bob-atlas", True),
        (writer("atlas", "iam:bob"), "user.iam-bob", True),
        (writer("cms", "bob-atlas"), "user.bob-atlas", False),
        (writer("cms", "bob-atlas"), "user.bob-atlas-cms", True),
        (writer("atlas", "anna-maria"), "user.anna-maria", True),
        (CARL, "group.phys-higgs", True),
        (CARL, "group.phys-higgs-atlas", True),
        (CARL, "group.phys-higgs-cms", False),
        (CARL, "group.phys-top", False),
        (CARL, "data24_13p6TeV", False),
    ],
)
def test_nobody_takes_what_people_and_groups_of_another_vo_will_write(
    who: NameWriter, scope: str, expected: bool
) -> None:
    assert may_take(scope, who, VOS) is expected


def test_whoever_sets_the_installation_up_takes_any_scope() -> None:
    anybody = NameWriter("", "", may_write=lambda whose: True, takes_any=True)
    assert all(may_take(scope, anybody, VOS) for scope in ("user.bob", "group.phys-higgs", "user.bob-atlas"))
