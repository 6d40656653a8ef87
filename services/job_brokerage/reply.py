"""The envelope of the service's HTTP replies."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from shared.model.task_spec_problems import problems_of_request


class Reply(BaseModel):
    """The envelope of every reply."""

    success: bool
    message: str = ""
    data: Any = None


def put_into_envelopes(web: FastAPI) -> None:
    """Requests that the framework refuses get the envelope as well, with every problem; their status stays 422."""

    @web.exception_handler(RequestValidationError)
    async def wrong_request(request: Request, error: RequestValidationError) -> Response:
        told = problems_of_request(error.errors())
        reply = Reply(
            success=False,
            message="; ".join(str(one) for one in told),
            data={"problems": [asdict(one) for one in told]},
        )
        return JSONResponse(reply.model_dump(), status_code=422)
