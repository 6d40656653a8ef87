"""The corrector of the documents, found and called as any plugin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shared.order.configuration import DEFAULT, corrections_of
from shared.order.tree import Node
from shared.plugins.conformance import PluginConformance


class TestWmsHistoryIsAPlugin(PluginConformance):
    group, vo, label = "orrery.share_corrector", "any", "WMSHistory"
    methods = ("correct_shares", "correct_users")

    def examples(self) -> Iterable[tuple[str, tuple[Any, ...]]]:
        (instance,) = corrections_of(DEFAULT)["WMSHistory"]
        usage = [{"a": 3.0, "b": 1.0}, {"a": 1.0}]
        yield "correct_shares", ([Node("a", 50), Node("b", 50)], usage, instance)
        yield "correct_users", (["a", "b", "c"], usage, instance)
