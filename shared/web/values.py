"""Reads values in paths, queries and bodies: ids, pages, and texts for nothing, truth and time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from annotated_types import Ge, Le
from pydantic import BeforeValidator, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from shared.model.problems import FieldProblem
from shared.model.whole_numbers import LARGEST_ID, LARGEST_INT4, LARGEST_INT8
from shared.web.problems import WrongRequest

#: ids in one request, which become the parameters of one statement
MOST_IDS = 10_000


def absent(value: Any) -> Any:
    """None for a blank text, and for the texts in which clients send Python's None and PanDA's NULL."""
    return None if isinstance(value, str) and value.strip() in ("", "None", "null", "NULL") else value


def read_id(value: Any) -> int:
    """An id as a number or as text: 7, 7.0, "7", " 7 ". Raises ValueError with what is allowed."""
    if isinstance(value, str):
        text = value.strip().removesuffix(".0")
        number = int(text[:40]) if text.isascii() and text.isdigit() else None
    else:
        is_number = type(value) is int or (isinstance(value, float) and value.is_integer())
        number = int(value) if is_number else None
    if number is None:
        raise ValueError("allowed: a whole number")
    if not 1 <= number <= LARGEST_ID:
        raise ValueError(f"the id is out of range; allowed: 1 to {LARGEST_ID}")
    return number


def ids_of(value: Any, field: str) -> list[int]:
    """Ids as repeated keys, a list, or text separated by commas. Raises WrongRequest."""
    if _are_ids(value):
        return list(value)
    parts = value if isinstance(value, list) else [] if value is None else [value]
    pieces = [piece for part in parts for piece in (part.strip("[] ").split(",") if isinstance(part, str) else [part])]
    given = [piece for piece in pieces if not (isinstance(piece, str) and not piece.strip())]
    if not given or len(given) > MOST_IDS:
        allowed = f"1 to {MOST_IDS} are"
        raise WrongRequest([FieldProblem(field, "", allowed, f"{field}: {len(given)} ids are not allowed; {allowed}")])
    return [_one_of(field, piece) for piece in given]


def _one_of(field: str, piece: Any) -> int:
    try:
        return read_id(piece)
    except ValueError:
        shown, allowed = repr(piece)[:42], "positive whole numbers are"
        said = f"{field}: value {shown} is not allowed; {allowed}"
        raise WrongRequest([FieldProblem(field, shown, allowed, said)]) from None


def _are_ids(value: Any) -> bool:
    """A list of numbers that needs no closer look, as most are: thousands are checked in well under a millisecond."""
    is_short = isinstance(value, list) and len(value) <= MOST_IDS
    return is_short and set(map(type, value)) == {int} and min(value) > 0 and max(value) <= LARGEST_ID


def _time(value: Any) -> Any:
    """A time as clients write it; without a zone it is UTC."""
    if isinstance(value, str) and absent(value) is not None:
        at = datetime.fromisoformat(value.strip())
        return at if at.tzinfo else at.replace(tzinfo=UTC)
    return absent(value)


def _storable(value: Any) -> Any:
    if isinstance(value, str) and ("\x00" in value or any("\ud800" <= one <= "\udfff" for one in value)):
        raise ValueError("allowed: a text without the character NUL and without half a pair")
    return absent(value)


Id = Annotated[int, BeforeValidator(read_id), Ge(1), Le(LARGEST_ID)]
MaybeId = Annotated[Id | None, BeforeValidator(absent)]
Text = Annotated[str | None, BeforeValidator(_storable)]
Number = Annotated[Annotated[int, Ge(-LARGEST_INT8 - 1), Le(LARGEST_INT8)] | None, BeforeValidator(absent)]
Truth = Annotated[bool | None, BeforeValidator(absent)]
Time = Annotated[datetime | None, BeforeValidator(_time)]

#: rows before the page; `before_id`, the last id of the page before, costs less and is used where pages are deep
Offset = Annotated[int, BeforeValidator(lambda value: 0 if absent(value) is None else value), Ge(0), Le(LARGEST_INT4)]


@dataclass(frozen=True)
class Page:
    """How many rows one answer may have: ``limit: Annotated[int, Page(1000)] = 100``."""

    most: int
    default: int = 100

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        rows = core_schema.int_schema(ge=1, le=self.most)
        return core_schema.no_info_before_validator_function(self._given, rows)

    def _given(self, value: Any) -> Any:
        return self.default if absent(value) is None else value
