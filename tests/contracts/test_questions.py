"""Every question knows its parameters: a misspelt filter is refused instead of being answered with everything."""

from __future__ import annotations

from typing import Any

import pytest

from shared.runtime.service import Context
from shared.web.json_route import JsonRoute
from tests.contracts.test_rights import SERVICES, is_of_the_console
from tests.routes import routes_of

#: questions that read their request themselves, and why
READ_THEMSELVES = {
    "/api/v1/creds/get_access_token": "a pilot's question, with whatever its version adds",
    "/api/v1/pilot/get_job_status": "likewise",
    "/auth/{vo}_auth_config.json": "a file: what stands behind the ? of a file chooses nothing",
    "/cache/ddmendpoints.json": "likewise",
    "/cache/schedconfig.json": "likewise",
    "/cache/schedconfig/{file:str}": "likewise",
    "/cache/{name:sandbox}": "likewise",
    "/signed/{permission}/cache/{name:sandbox}": "likewise",
}
#: old paths, whose callers send fields that newer versions dropped
OF_OLD_CLIENTS = "/server/panda/"


@pytest.mark.parametrize("service", SERVICES)
def test_every_question_knows_its_parameters_or_says_why_it_does_not(service: str, context: Context) -> None:
    # a page names the words of its address that it does not know (test_pages)
    questions = [
        one for one in routes_of(service, context) if "GET" in one.methods and not is_of_the_console(service, one.path)
    ]
    unchecked = {one.path for one in questions if not one.path.startswith(OF_OLD_CLIENTS) and not _knows(one)}
    assert unchecked <= READ_THEMSELVES.keys(), unchecked - READ_THEMSELVES.keys()


def _knows(route: Any) -> bool:
    return isinstance(route, JsonRoute) and route.known_parameters() is not None
