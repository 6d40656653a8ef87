"""What axe finds on a page: rules of WCAG 2.2, levels A and AA, and its own about good practice."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
#: all details are open; of longer tables these rows are looked at: axe takes its time for each
ROWS = 40
SHORTER = f"""
document.querySelectorAll('details').forEach(one => one.open = true);
document.querySelectorAll('tbody tr:nth-child(n+{ROWS + 1})').forEach(one => one.remove());
"""


def violations(page: Page, address: str) -> dict[str, str]:
    """What is wrong where, in the light theme and in the dark one."""
    page.goto(address)
    page.evaluate(SHORTER)
    page.evaluate(AXE_SCRIPT)
    found = dict[str, str]()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found |= _run(page, f"{address} {scheme}", RULES)
    return found


def _run(page: Page, where: str, options: dict[str, Any]) -> dict[str, str]:
    results = page.evaluate("options => axe.run({resultTypes: ['violations'], preload: false, ...options})", options)
    return {
        f"{where}: {one['id']}": "; ".join(node["html"][:200] for node in one["nodes"][:3])
        for one in results["violations"]
    }
