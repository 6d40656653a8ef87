"""Global shares: a tree of percentages; tasks get leaves, by expressions on their attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from shared.model.expression import InvalidExpression, parse_expression
from shared.model.problems import Problem, problems_of

FILE = "shares.json"


@dataclass(frozen=True)
class Share:
    """One node; `value` is percent among its siblings; None for an expression means that it is not asked.

    `stretchable`: it goes before its siblings where others do not use what they are due.
    """

    name: str
    value: float
    parent: str | None = None
    prodsourcelabel: str | None = None
    workinggroup: str | None = None
    campaign: str | None = None
    processingtype: str | None = None
    transpath: str | None = None
    rtype: str | None = None
    vo: str | None = None
    queue_id: int | None = None
    throttled: bool = True
    stretchable: bool = False


#: what the columns of table `shares` are called in the statements that store a tree, and the fields that fill them
_STORED = {
    "gshares": "name", "percents": "value", "parents": "parent", "prod_source_labels": "prodsourcelabel",
    "working_groups": "workinggroup", "campaigns": "campaign", "processing_types": "processingtype",
    "trans_paths": "transpath", "resource_types": "rtype", "vos": "vo", "throttled": "throttled",
    "stretchable": "stretchable",
}  # fmt: skip


def as_columns(tree: Sequence[Share]) -> dict[str, Any]:
    """A tree as one list for each column, in the order of the tree: that is the order of matching."""
    return {column: [getattr(one, field) for one in tree] for column, field in _STORED.items()}


class _Node(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=64)]
    value: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
    parent: str | None = None
    prodsourcelabel: str | None = None
    workinggroup: str | None = None
    campaign: str | None = None
    processingtype: str | None = None
    transpath: str | None = None
    rtype: str | None = None
    vo: str | None = None
    queue_id: Annotated[int, Field(ge=0)] | None = None
    throttled: Annotated[str, Field(pattern="^[YN]$")] = "Y"
    stretchable: Annotated[str, Field(pattern="^[YN]$")] = "N"

    @field_validator("prodsourcelabel", "workinggroup", "campaign", "processingtype", "transpath", "rtype")
    @classmethod
    def _is_expression(cls, value: str | None) -> str | None:
        try:
            parse_expression(value or "")
        except InvalidExpression as error:
            raise ValueError(str(error)) from error
        return value


def shares_from_list(content: Any, problems: list[Problem]) -> tuple[Share, ...]:
    """The nodes of shares.json in order; problems (unknown parent, repeated name, a circle) are added."""
    if content is None:
        return ()
    if not isinstance(content, list):
        problems.append(Problem(FILE, "", "", "must be a list of shares"))
        return ()
    shares: dict[str, Share] = {}
    for index, record in enumerate(content):
        key = str(record.get("name", index)) if isinstance(record, Mapping) else str(index)
        try:
            node = _Node.model_validate(record)
        except ValidationError as error:
            problems.extend(problems_of(FILE, key, error))
            continue
        if node.name in shares:
            problems.append(Problem(FILE, key, "name", "is listed twice"))
            continue
        shares[node.name] = Share(
            **{**node.model_dump(), "throttled": node.throttled == "Y", "stretchable": node.stretchable == "Y"}
        )
    for share in shares.values():
        if share.parent is not None and share.parent not in shares:
            problems.append(Problem(FILE, share.name, "parent", f"{share.parent!r} is not a share"))
        elif _in_circle(share, shares):
            problems.append(Problem(FILE, share.name, "parent", "the parents form a circle"))
    return tuple(shares.values())


def _in_circle(share: Share, shares: Mapping[str, Share]) -> bool:
    seen = {share.name}
    parent = share.parent
    while parent is not None and parent in shares:
        if parent in seen:
            return True
        seen.add(parent)
        parent = shares[parent].parent
    return False
