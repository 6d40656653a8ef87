"""SQL, paths and odd values in every text that a route takes, generated from the routes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI

from services.cli.addresses import SERVICES
from tests.attack.attacks import attack
from tests.attack.ground import GotThrough, Ground, require
from tests.attack.routes import application_of
from tests.handlers.every_service import Asked, routes_of

HOSTILE = (
    "' OR '1'='1", "'; DROP TABLE tasks; --", "1); SELECT pg_sleep(6); --", "../../../../../../etc/passwd",
    "x' UNION SELECT value FROM user_secrets --", "%00../etc/passwd", "\x00", "{{7*7}}${7*7}", "\ud7ff\U0010ffff" * 40,
    "file:///etc/passwd", "$(id)`id`|id", "-9223372036854775809", "\\\\..\\..\\", "[" * 200,
)  # fmt: skip
#: signs that a text was not taken as text
SIGNS = ("root:x:", "syntax error at or near", "asyncpg", "Traceback (most", "psycopg", "unterminated quoted", "uid=0")
SLOW_S = 5.0
#: it would end the attack for all who come later
LEFT_OUT = {"/api/v1/token/revoke"}


def _requests() -> Iterator[tuple[Asked, str, str]]:
    """Each field of each route: (route, where it stands, its name)."""
    for service in SERVICES:
        web = application_of(service)
        if not isinstance(web, FastAPI):
            continue
        for route in routes_of(web):
            if route.path in LEFT_OUT:
                continue
            yield from ((route, "path", name) for name in route.in_path)
            yield from ((route, "query", name) for name in route.in_query)
            yield from ((route, "body", name) for name in route.in_body)


@attack("SQL and paths in every text of every route")
def every_text(ground: Ground) -> None:
    who = ground.people.operator
    cells = list(_requests())
    require(len(cells) > 150, f"only {len(cells)} fields were found: the documents of the routes cannot be read")
    per_field = ground.sized(len(HOSTILE), 2)
    tries = [
        (cell, HOSTILE[(number + offset) % len(HOSTILE)])
        for number, cell in enumerate(cells)
        for offset in range(per_field)
    ]
    before = ground.rows.value("SELECT count(*) FROM tasks")

    def wrong(one: tuple[tuple[Asked, str, str], str]) -> str:
        (route, where, name), text = one
        answer = _sent(ground, route, where, name, text)
        told = f"{route.method} {route.path} {where} {name}={text[:24]!r}"
        if answer.status >= 500 or answer.seconds > SLOW_S:
            return f"{told}: {answer} after {answer.seconds:.1f} s"
        sign = next((one for one in SIGNS if one in answer.text), None)
        return f"{told}: the answer holds {sign!r}" if sign else ""

    with ThreadPoolExecutor(6) as pool:
        found = [one for one in pool.map(wrong, tries) if one]
    require(ground.rows.value("SELECT count(*) FROM tasks") >= before, "tasks are gone")
    if found:
        raise GotThrough(f"{len(found)} of {len(tries)}: {'; '.join(found[:4])}")
    require(who.get("/api/v1/task/list").is_success, "tasks cannot be listed any more")


def _sent(ground: Ground, route: Asked, where: str, name: str, text: str) -> Any:
    who, path = ground.people.operator, route.path
    for field in route.in_path:
        path = path.replace("{" + field + "}", quote(text if field == name else "1", safe=""))
    query = {name: text} if where == "query" else {}
    if route.method == "GET" or where != "body":
        return who.ask(route.method, path, params=query)
    content = json.dumps({name: text}, ensure_ascii=True)
    return who.ask(route.method, path, params=query, content=content, headers={"Content-Type": "application/json"})
