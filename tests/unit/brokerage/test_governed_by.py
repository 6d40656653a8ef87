"""Decisions name the runtime parameters that an operator may set."""

from __future__ import annotations

from typing import Any

import pytest

from services.cli.dry_run.document import document_of
from services.job_brokerage.policy import analysis, production
from services.job_brokerage.policy.production import ProductionJobBrokerage
from services.task_brokerage.policy.filters import FILTERS
from shared.brokerage.governed_by import GOVERNED_BY
from shared.config.declared import find_parameter
from tests.unit.brokerage.worlds import a_queue, a_request, a_storage, a_world

ASKED = (production.PIPELINE, production.CAPS, analysis.PIPELINE)


def too_full() -> Any:
    """A decision about a queue whose output storage is full, and one that is too small whatever anybody sets."""
    queues = [a_queue("FULL", "A"), a_queue("SMALL", "B", max_rss_mb=10)]
    world = a_world(queues, storages=[a_storage("A_DATADISK", "A", space_free_gb=1)])
    return ProductionJobBrokerage().decide(world, a_request(), 1)


def test_what_governs_a_check_is_known_and_the_check_is_asked() -> None:
    asked = {one.check.name for pipeline in ASKED for one in pipeline.filters} | {one.check.name for one in FILTERS}
    assert set(GOVERNED_BY) <= asked


@pytest.mark.parametrize("name", sorted({name for names in GOVERNED_BY.values() for name in names}))
def test_a_parameter_that_a_decision_names_can_be_set(name: str) -> None:
    component, _, key = name.partition(".")
    assert find_parameter(component, key) is not None


def test_an_exclusion_names_the_parameter_that_governs_it_and_none_where_the_queue_alone_does() -> None:
    told = {one.name: (one.check, one.parameters) for one in document_of(too_full()).exclusions}
    assert told == {"FULL": ("free_space", ["jobbroker.STORAGE_MIN_FREE_SIZE"]), "SMALL": ("memory_too_large", [])}
