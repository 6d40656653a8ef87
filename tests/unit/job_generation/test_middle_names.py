"""The middle name of unmerged outputs is read from their names."""

from __future__ import annotations

import pytest

from services.job_generation.policy.values import Template, Unit
from services.job_generation.splitting.middle_names import middle_name_in_outputs


@pytest.mark.parametrize(
    ("template", "name", "middle"),
    [
        ("a.x${MIDDLENAME}.7._${SN/P}.root", "panda.um.a.x.mc23.e8.7._000001.root", ".mc23.e8"),
        ("a.x${MIDDLENAME}.7._${SN/P}.root", "panda.um.a.x.7._000001.root", ""),
        ("a.x${MIDDLENAME}.7._${SN/P}.root", "a.x.mc23.7._000001.root.panda.um", ".mc23"),
        ("a.x${MIDDLENAME}._${SN}.root.1", "panda.um.a.x.1._000001.root.1", ".1"),
        ("a.x._${SN/P}.root", "panda.um.a.x._000001.root", ""),
    ],
)
def test_it_is_what_stands_in_the_place_of_its_placeholder(template: str, name: str, middle: str) -> None:
    read = middle_name_in_outputs([Template(1, 2, template, "OUTPUT0", "output")])
    assert read([Unit(3, "panda.um.log.tgz"), Unit(4, name)]) == middle
