"""Renders pages: templates, headers, and HTML or JSON as it was asked for."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import Response

from services.console.policy.sessions import HOME
from services.console.showing.drawing import bar, day, line, stacked
from services.console.showing.pages import Page
from services.console.showing.texts import FILTERS

ROOM = Path(__file__).resolve().parents[1]
#: the wheel that brings htmx; it is not imported, which would ask for Django
HTMX_PACKAGE = "django_htmx"
#: one file: it looks at a page as soon as it has run, for whatever extensions have by then
HTMX, HTMX_PARTS = "htmx.js", ("static/django_htmx/htmx-4.min.js", "static/django_htmx/ext/hx-sse-4.min.js")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
#: pages are of one person: nobody else may keep them
PRIVATE = {**HEADERS, "Cache-Control": "no-store", "Vary": "Accept, Cookie"}
PACKED_LEVEL = 6
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


def static_files() -> dict[str, bytes]:
    """What pages load besides, by name; without the wheel of htmx pages do not ask again by themselves."""
    found = {path.name: path.read_bytes() for path in sorted((ROOM / "static").iterdir())}
    spec = importlib.util.find_spec(HTMX_PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        parts = [path.read_bytes() for path in (Path(place) / part for part in HTMX_PARTS) if path.exists()]
        found |= {HTMX: b"\n;\n".join(parts)} if parts else {}
    return found


class Renderer:
    """Templates and the files that they load, each under an address that changes with its content."""

    def __init__(self) -> None:
        self.files = static_files()
        self.addresses = {
            name: f"{HOME}static/{hashlib.sha256(content).hexdigest()[:16]}/{name}"
            for name, content in self.files.items()
        }
        self._templates = Environment(
            loader=FileSystemLoader(ROOM / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._templates.filters |= FILTERS
        self._templates.globals |= {
            "home": HOME,
            "static": self.addresses,
            "bar": bar,
            "day_of": day,
            "line_of": line,
            "stacked": stacked,
        }

    def html(self, page: Page, now: datetime, around: Mapping[str, Any]) -> Response:
        """The page for people; `around`: who is signed in, the token of forms, where it is."""
        text = self._templates.get_template(page.template).render(
            {**around, **page.data, **page.shown, "page": page, "away": page.away, "now": now}
        )
        return Response(text, page.status, PRIVATE, "text/html; charset=utf-8")

    def json(self, page: Page) -> Response:
        """The same for programs."""
        content = {"title": page.title, "verb": page.verb, "data": page.data, "away": page.away}
        body = orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS, default=str)
        return Response(body, page.status, PRIVATE, "application/json")

    def file(self, name: str, digest: str) -> Response | None:
        """A file under its address of now, which may be kept for a year; None for any other."""
        if self.addresses.get(name) != f"{HOME}static/{digest}/{name}":
            return None
        headers = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
        return Response(self.files[name], 200, headers, _TYPES[Path(name).suffix])


def again(response: Response) -> Response:
    """The same answer to somebody else; what is around it adds headers to each."""
    copied = Response(status_code=response.status_code)
    copied.body, copied.raw_headers = response.body, list(response.raw_headers)
    return copied


def packed(response: Response) -> Response:
    """Pack an answer once for all who get it."""
    if response.body and "content-encoding" not in response.headers:
        response.body = gzip.compress(bytes(response.body), PACKED_LEVEL)
        response.headers["content-encoding"] = "gzip"
        response.headers["content-length"] = str(len(response.body))
        response.headers.add_vary_header("Accept-Encoding")
    return response


def wants_json(accept: str) -> bool:
    """Whether a header Accept names JSON and not HTML."""
    return "application/json" in accept and "text/html" not in accept
