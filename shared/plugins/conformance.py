"""Tests that every plugin has to pass.

A VO derives a class in its own tests::

    class TestOurBrokerage(PluginConformance):
        group, vo, label = "orrery.job_brokerage", "ourvo", "managed"
        methods = ("decide",)

        def examples(self):
            yield "decide", (world, request, 1)
"""

from __future__ import annotations

import inspect
import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

from shared.plugins.discovery import find


class PluginConformance(ABC):
    """Discovery, construction, and that equal arguments give equal decisions and are left as they were."""

    group: ClassVar[str]
    vo: ClassVar[str]
    label: ClassVar[str]
    methods: ClassVar[tuple[str, ...]]

    @abstractmethod
    def examples(self) -> Iterable[tuple[str, tuple[Any, ...]]]:
        """Pairs of a method's name and arguments that it must be able to work on; the VO names its own."""

    def plugin(self) -> Any:
        """A new object of the plugin under test."""
        return find(self.group, self.vo, self.label)()

    def test_it_is_a_class_without_arguments_and_has_a_name(self) -> None:
        found = find(self.group, self.vo, self.label)
        assert inspect.isclass(found), f"the entry point of {self.group} must be a class, not {found!r}"
        name = self.plugin().name
        assert isinstance(name, str) and name

    def test_it_has_the_methods_of_its_protocol(self) -> None:
        plugin = self.plugin()
        for method in self.methods:
            assert callable(getattr(plugin, method, None)), f"{self.group} {plugin.name}: no method {method}"

    def test_it_decides_without_input_or_output_and_always_alike(self) -> None:
        for method, arguments in self.examples():
            before = pickle.dumps(arguments)
            first = getattr(self.plugin(), method)(*arguments)
            second = getattr(self.plugin(), method)(*arguments)
            assert not inspect.isawaitable(first), f"{method} must be a plain function"
            assert pickle.dumps(first) == pickle.dumps(second), f"{method}: two decisions from the same arguments"
            assert pickle.dumps(arguments) == before, f"{method} changed its arguments"
