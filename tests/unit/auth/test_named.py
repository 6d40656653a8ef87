"""Whom the configuration names for a place."""

from __future__ import annotations

from typing import Any

import pytest

from shared.auth.named import is_named

NAMED = {"CERN": ["harvester-1"], "*": ["factory"]}


@pytest.mark.parametrize(
    ("configured", "place", "subject", "named"),
    [
        (NAMED, "CERN", "harvester-1", True), (NAMED, "BNL", "harvester-1", False), (NAMED, "BNL", "factory", True),
        (NAMED, "CERN", "factory", True), (NAMED, "CERN", "stranger", False), (None, "CERN", "factory", False),
        ([], "CERN", "factory", False), ({"CERN": "factory"}, "CERN", "fact", False), ({}, "*", "*", False),
    ],
)  # fmt: skip
def test_a_subject_is_named_for_a_place_or_for_every_place(
    configured: Any, place: str, subject: str, named: bool
) -> None:
    assert is_named(configured, place, subject) is named
