"""Which names tasks, datasets, files and scopes may have."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.task_definition.data.importing.import_file import FORMAT, InvalidCatalogue, parse_catalogue
from services.task_definition.data.policy.allowed_names import is_catalogue_name, is_scope, is_task_name


@pytest.mark.parametrize(
    ("name", "catalogue", "task"),
    [
        ("mc23_demo.700123.simul.s4400", True, True),
        ("user.alice.ntup.v7/", False, True),
        ("user.alice.$JEDITASKID.${SN}.root", True, False),
        ("x/../etc", False, False),
        ("..", False, False),
        ("-rf", False, False),
        ("data set", False, False),
        ("data\n", False, False),
        ("data\x1b[2J", False, False),
        ("données", False, False),
        ("a*", False, False),
        ("", False, False),
    ],
)
def test_a_name_is_one_that_the_catalogues_take(name: str, catalogue: bool, task: bool) -> None:
    assert (is_catalogue_name(name), is_task_name(name)) == (catalogue, task)


@given(st.text(alphabet=st.characters() | st.sampled_from("ab./$-_{}:"), min_size=1))
def test_no_accepted_name_has_a_control_character_or_leaves_its_directory(name: str) -> None:
    if is_task_name(name):
        assert name.isprintable() and not {".", ".."} & set(name.split("/"))
    if is_catalogue_name(name) and "$" not in name:
        assert name.isprintable() and "/" not in name
    if is_scope(name):
        assert name.isprintable() and "/" not in name


@pytest.mark.parametrize(
    ("dataset", "field"),
    [
        ({"name": "data/../x"}, "name"),
        ({"scope": "mc 23"}, "scope"),
        ({"files": [{"lfn": "a\x07.root", "size_bytes": 1}]}, "lfn"),
        ({"file_series": [{"lfn": "../{serial:06d}.root", "count": 2, "size_bytes": 1}]}, "lfn"),
    ],
)
def test_an_import_refuses_names_that_catalogues_refuse(dataset: dict[str, Any], field: str) -> None:
    good = {"scope": "mc23", "name": "mc23.data/", "files": [{"lfn": "a.root", "size_bytes": 1}]}
    parse_catalogue({"format": FORMAT, "datasets": [good]}, storages=None, known_datasets=())
    with pytest.raises(InvalidCatalogue) as caught:
        parse_catalogue({"format": FORMAT, "datasets": [good | dataset]}, storages=None, known_datasets=())
    assert any(field in str(one) and "letters, digits" in str(one) for one in caught.value.problems)
