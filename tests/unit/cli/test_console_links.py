"""Links to pages: what one opens as oneself, and what others can open too."""

from __future__ import annotations

import json
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from services.cli.demo.stage import addresses_of


def test_the_link_that_signs_in_leads_on_to_the_page_that_was_named(services, orrery) -> None:
    services.says("/console/sign-in/links", {"path": "/console/sign-in/link/w.x", "address": None, "name": "ada"})
    for path in ("tasks/7", "/tasks/7", "/console/tasks/7"):
        url = orrery("console", path, "--print").out.strip()
        assert urlsplit(url)[2:4] == ("/console/sign-in/link/w.x", "next=%2Fconsole%2Ftasks%2F7")


def test_where_the_console_knows_its_address_the_link_has_that(services, orrery) -> None:
    told = {"path": "/console/sign-in/link/w.x", "address": "https://console.example", "name": "ada"}
    services.says("/console/sign-in/links", told)
    found = json.loads(orrery("console", "--json").out)
    assert found["data"]["url"] == "https://console.example/console/sign-in/link/w.x?next=%2Fconsole%2F"


@pytest.mark.parametrize(
    ("told", "is_asked"),
    [
        ("http://127.0.0.1:8080", True),
        ("http://localhost:8080", True),
        ("http://[::1]:8080", True),
        ("https://console.example", False),
        ("http://10.0.0.7:8080", False),
    ],
)
def test_who_asked_a_system_elsewhere_gets_no_link_to_a_loopback(
    services, orrery, monkeypatch: pytest.MonkeyPatch, told: str, is_asked: bool
) -> None:
    services.says("/console/sign-in/links", {"path": "/console/sign-in/link/w.x", "address": told, "name": "ada"})
    here = json.loads(orrery("console", "--json").out)["data"]["url"]
    assert here.startswith(f"{told}/console/"), "in a container it is known by its name, which no browser knows"
    asked = services.url.replace("127.0.0.1", "localhost")
    monkeypatch.setenv("ORRERY_URL", asked)
    url = json.loads(orrery("console", "--json").out)["data"]["url"]
    assert url.startswith(f"{asked if is_asked else told}/console/sign-in/link/w.x")


@pytest.mark.parametrize(
    ("kind", "which", "path"),
    [
        ("task", "7", "tasks/7"),
        ("job", "9", "jobs/9"),
        ("queue", "A/B c", "queues/A%2FB%20c"),
        ("share", "x", "shares/x"),
    ],
)
def test_a_link_for_others_asks_nobody(services, orrery, kind: str, which: str, path: str) -> None:
    url = json.loads(orrery("open", kind, which, "--json").out)["data"]["url"]
    assert urlsplit(url).path == f"/console/{path}"


def test_what_has_no_page_is_refused_with_what_is_allowed(services, orrery) -> None:
    found = orrery("open", "star", "7")
    assert found.code == 2 and "allowed are task, job, queue, share" in found.err


def test_the_demonstration_links_to_the_one_address_of_the_system() -> None:
    system = SimpleNamespace(
        urls={"console": ["http://127.0.0.1:2"]}, environment={}, directory="/d", gateway="http://127.0.0.1:1"
    )
    assert addresses_of(system).one_address == "http://127.0.0.1:1"
