"""Follows every link of the console, and looks at what each page links to and loads."""

from __future__ import annotations

import html
import re
from collections import defaultdict, deque
from collections.abc import Iterable
from urllib.parse import parse_qsl, urlsplit

import httpx

#: what differs between pages of one kind: ids, names of queues and shares, verbs of commands, digests of files
NAMES = re.compile(
    r"(?<=/queues/)[^/?]+|(?<=/shares/)[^/?]+|(?<=/sites/)[^/?]+|(?<=/commands/)[^/?]+|\b\d+\b|\b[0-9a-f]{16}\b"
)
LINK = re.compile(r'(?:href|src)="([^"#]+)"')


def kind_of(address: str) -> str:
    """What pages of one kind have in common. Example: /tasks/7/why?decision=3 has /tasks/N/why?decision."""
    parts = urlsplit(address)
    words = "&".join(name for name, _ in parse_qsl(parts.query, keep_blank_values=True))
    return NAMES.sub("N", parts.path) + (f"?{words}" if words else "")


def crawl(browser: httpx.Client, start: Iterable[str], most_of_kind: int) -> dict[str, list[str]]:
    """The addresses of each kind that were opened; a page with an error is one too many."""
    waiting, opened, seen = deque(start), defaultdict[str, list[str]](list), set[str]()
    while waiting:
        address = waiting.popleft()
        kind = kind_of(address)
        if address in seen or len(opened[kind]) >= most_of_kind:
            continue
        seen.add(address)
        opened[kind].append(address)
        answer = browser.get(address)
        assert answer.status_code == 200, (address, answer.status_code, answer.text[:2000])
        if "text/html" not in answer.headers["content-type"]:
            continue
        assert "Not shown:" not in answer.text, address
        for link in map(html.unescape, LINK.findall(answer.text)):
            assert link.startswith("/console/"), f"{address} leads elsewhere: {link}"
            waiting.append(link)
    return dict(opened)
