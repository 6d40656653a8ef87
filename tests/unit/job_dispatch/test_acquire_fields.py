"""What an acquire asks for: the short way of reading it holds to what the model reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_dispatch.api.acquire_fields import offer_of_model, read_acquire, usual_fields
from services.job_dispatch.api.requests import LEGACY_NAMES, AcquireJobs, BadRequest, parse
from services.job_dispatch.policy.fitting import Offer, PilotKind

NAMES = sorted({
    *AcquireJobs.model_fields, *(old for old, name in LEGACY_NAMES.items() if name in AcquireJobs.model_fields), "cpu",
})  # fmt: skip
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 3000), st.integers(), st.floats(), st.text(max_size=5),
    st.sampled_from(["None", "null", " ", "7", "7.0", "-1", "CERN", "managed", []]),
)  # fmt: skip


def by_the_model(fields: dict[str, Any]) -> tuple[Offer, int, bool] | str:
    try:
        model = parse(AcquireJobs, fields)
        offer = offer_of_model(model, "pilot")
    except BadRequest as error:
        return str(error)
    return offer, model.n_jobs, "n_jobs" in model.model_fields_set


@given(st.dictionaries(st.sampled_from(NAMES), VALUES), st.one_of(st.none(), st.just("CERN")))
def test_the_short_way_reads_what_the_model_reads_and_refuses_what_it_refuses(fields, site) -> None:
    if site is not None:
        fields = {**fields, "site_name": site}
    try:
        wanted = read_acquire(fields, "pilot")
        found: Any = (wanted.offer, wanted.n_jobs, wanted.says_how_many)
    except BadRequest as error:
        found = str(error)
    assert found == by_the_model(fields)


def test_a_usual_request_needs_no_model() -> None:
    fields = {
        "site_name": "CERN", "memory": 4000, "disk_space": 20_480, "remaining_time": 86_399, "node": "n1",
        "prod_source_label": "managed", "computing_element": "ce", "cpu": 2400, "n_jobs": 2,
    }  # fmt: skip
    assert usual_fields(fields) is not None
    wanted = read_acquire(fields, "pilot")
    assert wanted.offer == Offer("CERN", PilotKind("managed", "", 4000, 20_400, 86_340), "n1", subject="pilot")
    assert (wanted.n_jobs, wanted.says_how_many) == (2, True)


@pytest.mark.parametrize(
    "field, value", [("memory", "4000"), ("memory", -1), ("memory", True), ("n_jobs", 0), ("node", 7), ("node", None)]
)
def test_the_model_alone_judges_what_is_not_usual(field: str, value: Any) -> None:
    assert usual_fields({"site_name": "CERN", field: value}) is None


def test_a_request_without_its_queue_is_refused_with_the_name_of_the_field() -> None:
    with pytest.raises(BadRequest, match="site_name: is missing"):
        read_acquire({"memory": 4000}, "pilot")
