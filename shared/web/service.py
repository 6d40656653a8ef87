"""What the runtime puts around the routes of every service."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fastapi import FastAPI
from starlette.applications import Starlette

from shared.auth import Authority
from shared.auth.authentication import Authentication
from shared.auth.web import give_authority
from shared.web.answers import answer_errors
from shared.web.document import with_envelopes
from shared.web.intake import Room, bound_requests
from shared.web.json_text import BodyLimits
from shared.web.refusals import count_with


def install(
    web: Starlette,
    authority: Authority | Authentication,
    body_limits: Mapping[str, BodyLimits] | None = None,
    room: Room | None = None,
    *,
    count_refusal: Callable[[str, str], None] = lambda route, cause: None,
) -> None:
    """Who may call, how much is let in, one envelope whatever goes wrong, a document that says so.

    `count_refusal` is told the route and the cause of each refusal.
    """
    give_authority(web, authority)
    count_with(web, count_refusal)
    bound_requests(web, body_limits, room)
    answer_errors(web)
    if isinstance(web, FastAPI):
        describe = web.openapi
        web.openapi = lambda: with_envelopes(describe())  # type: ignore[method-assign]
