"""The published client: PanDA's prun, pbook and their library."""

from __future__ import annotations

from pathlib import Path

from tests.integration.one_process import ROOT
from tests.integration.published_source import PublishedSource

CLIENT = PublishedSource(
    "panda-client", "2.2.0", "0e409e5d3ad3ab898cf6047db42079ad472e3c2442bb835c592c6b65d77de613", "panda_client"
)
KEPT = ROOT / ".local" / "published_client"


def published_client() -> Path:
    """The folder with its package `pandaclient`. Raises NotHere."""
    return CLIENT.unpacked(KEPT, "pandaclient/PrunScript.py")
