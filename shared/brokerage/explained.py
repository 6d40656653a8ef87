"""A stored decision (a row of `brokerage_decisions`) in words: needs nothing of the code that made it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.brokerage.check import Check, Tier
from shared.brokerage.pipeline import PASSED


def explain_row(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A stored decision, unpacked for people and JSON: one entry per queue or nucleus, passed ones first."""
    entries = []
    for place, name in enumerate(row["names"]):
        code = row["codes"][place]
        terms = {term: values[place] for term, values in row["terms"].items()}
        if code == PASSED:
            entries.append({"name": name, "weight": row["weights"][place], "terms": terms, "check": None})
            continue
        stored = row["checks"][str(code)]
        check = Check(
            code,
            stored["name"],
            Tier(stored["tier"]),
            stored["temporary"],
            stored["found"],
            stored["wanted"],
            stored["unit"],
            tuple(stored["words"]),
        )
        entries.append(
            {
                "name": name,
                "check": check.name,
                "tier": check.tier.value,
                "temporary": check.temporary,
                "found": f"{check.found} {check.text(row['found'][place])}",
                "wanted": f"{check.wanted} {check.text(row['wanted'][place])}",
                "parameters": stored["parameters"],
                "lifts": stored["lifts"],
            }
        )
    return sorted(entries, key=lambda entry: (entry["check"] is not None, -(entry.get("weight") or 0.0), entry["name"]))
