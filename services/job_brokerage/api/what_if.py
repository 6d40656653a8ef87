"""HTTP: what if? Told to whom the task is told in full."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from services.job_brokerage.supposing import NUMBERS, Supposing
from shared.auth import Caller, access, require
from shared.db.database import Database
from shared.model.problems import FieldProblem
from shared.model.whole_numbers import LARGEST_INT8
from shared.web.envelope import NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.problems import WrongRequest
from shared.web.values import Id, MaybeId

Reader = Annotated[Caller, Depends(require(access.DETAILS))]
MOST_SUPPOSED = 20
Supposed = Annotated[list[str] | None, Query(max_length=MOST_SUPPOSED)]
Limit = Annotated[int | None, Query(ge=1, le=1_000_000)]
Seed = Annotated[int, Query(ge=0, le=LARGEST_INT8)]
MOST_CHARACTERS, MOST = 300, 1e12
#: products of numbers stay whole numbers
MOST_OF = {"core_count": 1e5}


def what_if_routes(database: Database, supposing: Supposing) -> APIRouter:
    """Make the route `/api/v1/grid/what_if`."""
    routes = APIRouter(route_class=JsonRoute, prefix="/api/v1/grid", tags=["grid"])

    @routes.get("/what_if")
    async def what_if(
        caller: Reader,
        task_id: Id,
        chunk_id: MaybeId = None,
        number: Supposed = None,
        parameter: Supposed = None,
        seed: Seed = 0,
        limit: Limit = None,
    ) -> Response:
        """Decide again about a chunk, else the last one, with what is and with what is supposed.

        `number`: NAME=VALUE of the task, in its own unit; `parameter`: COMPONENT.KEY=VALUE. Data: both outcomes, and
        the queues about which they differ, at most `limit`; `n_changes` counts all of them.
        """
        numbers = dict(_number(one) for one in number or ())
        if long := next((one for one in parameter or () if len(one) > MOST_CHARACTERS), None):
            allowed = f"at most {MOST_CHARACTERS} characters"
            raise WrongRequest([FieldProblem("parameter", long[:40], allowed, f"parameter: allowed: {allowed}")])
        async with database.read() as connection:
            found = await supposing.of_task(
                connection, task_id, chunk_id, caller, numbers, parameter or (), seed, limit
            )
        return Envelope(found) if found else refused(NOT_FOUND, f"no chunk {chunk_id or ''} of task {task_id} found")

    return routes


def _number(text: str) -> tuple[str, int]:
    """NAME=VALUE. Raises WrongRequest."""
    name, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    most = MOST_OF.get(name, MOST)
    if name not in NUMBERS or not 0 <= number <= most or not number.is_integer():
        allowed = f"NAME=VALUE, a whole number from 0 to {most:.0f}, of {', '.join(NUMBERS)}"
        raise WrongRequest(
            [FieldProblem("number", text[:80], allowed, f"number: value {text[:80]!r}: allowed: {allowed}")]
        )
    return name, int(number)
