"""What people are told of why a job was not made longer."""

from __future__ import annotations

from services.job_generation.policy.values import Unit
from services.job_generation.splitting.master_input import MasterInput


def told(previous: Unit, unit: Unit) -> str:
    return MasterInput((previous, unit), [0, 0, 0], [0, 0, 0], [0, 0, 0]).why_parted(1)


def test_the_end_of_a_file_is_told_as_that() -> None:
    first = Unit(1, "a.root", start_event=0, end_event=9)
    assert told(first, Unit(2, "b.root", start_event=0, end_event=9)) == "file a.root ends"
    assert told(first, Unit(2, "a.root", start_event=20, end_event=29)) == "a gap between events follows"
    assert told(first, Unit(2, "a.root", lumi_block=3)) == "another boundary or luminosity block follows"
