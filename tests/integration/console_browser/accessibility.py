"""What axe finds on a page: rules of WCAG 2.2, levels A and AA, and its own about good practice."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
#: the theme changes nothing but colours
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}

#: all details are open; rows of a table are alike, and axe takes its time for each
SHORTER = """
document.querySelectorAll('details').forEach(one => one.open = true);
document.querySelectorAll('tbody tr:nth-child(n+6)').forEach(one => one.remove());
"""


def violations(page: Page, address: str) -> dict[str, str]:
    """What is wrong where, in the light theme and, of colours, in the dark one."""
    page.emulate_media(color_scheme="light")
    page.goto(address)
    page.evaluate(SHORTER)
    page.evaluate(AXE_SCRIPT)
    found = _run(page, f"{address} light", RULES)
    page.emulate_media(color_scheme="dark")
    return found | _run(page, f"{address} dark", COLOURS)


def _run(page: Page, where: str, options: dict[str, Any]) -> dict[str, str]:
    results = page.evaluate("options => axe.run({resultTypes: ['violations'], preload: false, ...options})", options)
    return {
        f"{where}: {one['id']}": "; ".join(node["html"][:200] for node in one["nodes"][:3])
        for one in results["violations"]
    }
