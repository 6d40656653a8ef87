"""What a pilot is told of the datasets of its input, as the field's server tells it."""

from __future__ import annotations

import pytest

from services.job_generation.policy.values import Dataset
from services.job_generation.specification.input_fields import COPIED, InputFacts
from services.job_generation.specification.job_fields import NOTHING
from shared.model.dataset_types import LIBRARY_STREAM


def a_dataset(stream: str, container: str | None = None) -> Dataset:
    return Dataset(1, "mc23:mc23.a", "input", "ready", stream, None, container_name=container)


def test_a_library_is_copied_where_other_input_is_read_directly() -> None:
    tokens = [InputFacts.of(a_dataset(stream), is_copied=False).token for stream in ("IN", LIBRARY_STREAM)]
    assert tokens == [NOTHING, COPIED]
    assert InputFacts.of(a_dataset("IN"), is_copied=True).token == COPIED


@pytest.mark.parametrize(
    ("container", "told"),
    [("mc23.all", "mc23.all"), (None, "mc23.a"), ("mc23.*", "mc23.a"), ("DBR_LATEST", "mc23.a")],
)
def test_a_file_is_told_with_the_container_that_its_task_named(container: str | None, told: str) -> None:
    facts = InputFacts.of(a_dataset("IN", container), is_copied=False)
    assert (facts.asked_for, facts.name) == (told, "mc23.a")
