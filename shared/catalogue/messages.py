"""What Rucio says by itself, as its daemon hermes sends it: JSON with a type and a payload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: types of messages after which a rule is worth a look
OF_RULES = frozenset({"rule_ok", "rule_progress", "datasetlock_ok"})


def rule_of_message(message: Mapping[str, Any]) -> str | None:
    """The rule that a message is about; None where it says nothing of a rule.

    Example: {"event_type": "rule_ok", "payload": {"rule_id": "4d8d...", "scope": "mc", "name": "x"}}. Types come in
    either case and with either dash, by the version of the daemon.
    """
    kind, payload = message.get("event_type"), message.get("payload")
    if not isinstance(kind, str) or kind.lower().replace("-", "_") not in OF_RULES or not isinstance(payload, Mapping):
        return None
    rule_id = payload.get("rule_id")
    return rule_id if isinstance(rule_id, str) and rule_id else None
