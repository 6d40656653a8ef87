"""What becomes of a unit of input is a transition that the graph has, whatever the catalogue says."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.task_definition.tasks.policy.input_read import changed_unit
from services.task_definition.tasks.policy.input_wishes import InputWish
from shared.states import FILE, Owner

FREE = ("ready", "pending", "staging", "missing", "lost")


def found(was: str, *, is_listed: bool, is_corrupted: bool, is_here: bool) -> dict[str, Any]:
    return {
        "file_id": 1, "status": was, "fsize": 1, "checksum": "ad:1", "n_events": 5, "start_event": None,
        "is_listed": is_listed, "is_corrupted": is_corrupted, "is_here": is_here, "listed_size": 2,
        "listed_checksum": "ad:2", "listed_events": 6,
    }  # fmt: skip


@given(
    st.sampled_from(FREE),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["missing", "pending", "staging"]),
)
def test_every_change_is_an_arrow_of_the_graph(
    was: str, is_listed: bool, is_corrupted: bool, is_here: bool, elsewhere: Any
) -> None:
    unit = found(was, is_listed=is_listed, is_corrupted=is_corrupted, is_here=is_here)
    change = changed_unit(unit, InputWish(is_master=True, name="x", without_copy=elsewhere))
    if change.status != was:
        FILE.check(was, change.status, Owner.TASK_DEFINITION)
    if not is_listed:
        assert change.status == "lost" and change.size_bytes == 1
    elif is_corrupted:
        assert change.status == "broken"
    else:
        assert change.status == ("ready" if is_here else elsewhere) and change.size_bytes == 2
