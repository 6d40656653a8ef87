"""Calls of PanDA's client to other systems behind its server, answered with why there are none here."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from services.job_dispatch.api.legacy_answers import as_pair, as_text, pair
from services.job_dispatch.api.legacy_methods import LegacyMethod
from shared.auth.access import SUBMITTING

_ALLOWED = "allowed: a task for each step (prun), later ones with --parentTaskID"
WORKFLOWS = f"workflows are not supported by this version; {_ALLOWED}"
EVENT_PICKING = "picking events by run and number is not supported by this version; allowed: --inDS with a dataset"
_PAIRS = ("relay_idds_command", "execute_idds_workflow_command", "put_workflow_request")


def relays() -> list[LegacyMethod]:
    """One method for each.

    The client shows the second of a pair whose first is false, and a text where it asked for event picking.
    """
    users = ("user", "production")
    methods = [LegacyMethod(name, ("POST",), _no_workflows, as_pair, SUBMITTING, users) for name in _PAIRS]
    return [
        *methods,
        LegacyMethod("putEventPickingRequest", ("POST",), _no_event_picking, as_text, SUBMITTING, users),
    ]


async def _no_workflows(request: Request) -> Response:
    """[false, reason]."""
    return pair(False, WORKFLOWS)


async def _no_event_picking(request: Request) -> Response:
    """The reason."""
    return Response(f"{EVENT_PICKING}\n", media_type="text/plain")
