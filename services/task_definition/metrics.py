"""What task definition counts."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter


class DefinitionMetrics:
    """Labels are few and fixed: never a dataset, scope or caller; one for each process."""

    _known: WeakKeyDictionary[CollectorRegistry, DefinitionMetrics] = WeakKeyDictionary()

    @classmethod
    def of(cls, registry: CollectorRegistry) -> DefinitionMetrics:
        """The one of a registry."""
        if registry not in cls._known:
            cls._known[registry] = cls(registry)
        return cls._known[registry]

    def __init__(self, registry: CollectorRegistry) -> None:
        self.refused_writes = Counter(
            "orrery_catalogue_writes_refused",
            "Names of datasets that were not their writer's, by what was to be written and whose they are",
            ["verb", "cause"],
            registry=registry,
        )
        self.unregistered_files = Counter(
            "orrery_output_files_unregistered",
            "Files that jobs wrote and that their dataset did not take: it was closed, or not there any more",
            ["kind"],
            registry=registry,
        )
        self.refused_secrets = Counter(
            "orrery_secrets_refused",
            "Secrets that a task does not get: asked for in another's name (another_name), changed by others (changed)",
            ["cause"],
            registry=registry,
        )
