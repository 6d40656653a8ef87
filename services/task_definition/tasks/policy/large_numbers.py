"""Large numbers inside sentences, as people read them."""

from __future__ import annotations

import re

_LARGE = re.compile(r"\b\d(?:\.\d+)?e\+\d{2}\b")


def written_out(text: str) -> str:
    """ "3.44771e+07 GB" as "34,477,100 GB"; everything else stays as it is."""
    return _LARGE.sub(lambda found: f"{float(found[0]):,.0f}", text)
