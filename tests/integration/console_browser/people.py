"""Signing in as people do."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Page, expect

from tests.integration.cli.conftest import Orrery

OPERATOR = ("--name", "olga", "--role", "operator")
#: whose the tasks of the stories are
OWNER = ("--name", "production", "--role", "production", "--group", "atlas")
USER = ("--name", "ulla", "--role", "user", "--group", "atlas")


def by_link(context: BrowserContext, orrery: Orrery, path: str = "", *options: str) -> Page:
    """Open the link that `orrery console` prints, and go on to the page that was named."""
    url = orrery("console", path, "--json", *(options or OPERATOR)).json()["data"]["url"]
    page = context.new_page()
    page.goto(url)
    page.get_by_role("button", name="Sign in as").click()
    expect(page).to_have_url(f"{urlsplit(url).scheme}://{urlsplit(url).netloc}/console/{path}")
    return page


def at_issuer(page: Page, name: str) -> None:
    """From the page for signing in to the issuer, and back."""
    page.get_by_role("link", name="Sign in at").click()
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Sign in").click()
