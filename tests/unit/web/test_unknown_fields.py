"""A field that a record does not have is refused with the fields that it has, at every depth."""

from __future__ import annotations

from typing import Annotated

import pytest
from fastapi import Body, FastAPI
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.testclient import TestClient

from shared.model.known_fields import known_fields
from shared.model.problems import problems_of
from shared.web.answers import answer_errors


class _Member(BaseModel):
    model_config = ConfigDict(extra="forbid")
    lfn: str = "a"
    size_bytes: int = Field(default=0, alias="size")


class _Group(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = "x"
    members: Annotated[list[_Member], Field(max_length=3)] | None = None


def _service() -> TestClient:
    web = FastAPI()
    answer_errors(web)

    @web.post("/group")
    async def group(group: Annotated[_Group, Body(embed=True)]) -> str:
        return group.name

    @web.post("/numbers")
    async def numbers(numbers: dict[str, int]) -> int:
        return len(numbers)

    return TestClient(web)


@pytest.mark.parametrize(
    ("body", "field", "allowed"),
    [
        ({"group": {"VO": 1}}, "group.VO", "unknown field; allowed: name, members"),
        ({"group": {"nane": 1}}, "group.nane", "unknown field; did you mean name?"),
        ({"group": {"members": [{}, {"open": 1}]}}, "group.members.1.open", "unknown field; allowed: lfn, size"),
    ],
)
def test_a_request_with_an_unknown_field_is_told_the_known_ones(body: object, field: str, allowed: str) -> None:
    (told,) = _service().post("/group", json=body).json()["problems"]
    assert (told["field"], told["allowed"]) == (field, allowed)


def test_a_body_without_fields_is_refused_without_any() -> None:
    (told,) = _service().post("/numbers", json={"a": "x"}).json()["problems"]
    assert told["field"] == "a"
    assert "whole number" in told["allowed"]


def test_an_unknown_field_of_a_file_is_told_the_known_ones_and_the_value() -> None:
    with pytest.raises(ValidationError) as wrong:
        _Group.model_validate({"open": True})
    (told,) = problems_of("catalogue", "ds", wrong.value, model=_Group)
    assert str(told) == "catalogue: ds: open: unknown field; allowed: name, members (value True)"


@pytest.mark.parametrize(
    ("place", "expected"),
    [((), ["name", "members"]), (("members", 0), ["lfn", "size"]), (("name",), []), (("nothing", 4), [])],
)
def test_the_fields_at_a_place_are_those_of_the_record_there(place: tuple[str | int, ...], expected: list[str]) -> None:
    assert known_fields(_Group, place) == expected
