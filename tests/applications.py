"""Applications of services as the runtime serves them, without sockets."""

from __future__ import annotations

from fastapi import FastAPI

from shared.auth import Authority
from shared.runtime.service import Service
from shared.web.document import add_document
from shared.web.service import install


def application_of(service: Service, authority: Authority) -> FastAPI:
    """With authority, limits and envelopes; asked for again, it is the same."""
    assert service.web is not None
    if not hasattr(service.web.state, "authentication"):
        install(service.web, authority, service.body_limits)
        add_document(service.web, service.name)
    return service.web
