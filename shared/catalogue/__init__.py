"""Datasets, containers and replicas.

The port (`port`), the built-in adapter in PostgreSQL (`built_in`), and the file format in which a catalogue is imported
(`import_file`).

Only task_definition writes through the port; other services read. Names are stored without scope and without the slash
that marks a container (`shared.model.names.bare_name`), as `task_datasets.dataset_name` has them.

A complete replica is one row of `dataset_replicas` with `complete`; only incomplete copies have rows in
`file_replicas`. Freezing a dataset turns replicas that have all its files into complete ones; reopening it turns them
back, so that the rule stays true while files are added.
"""

from shared.catalogue.built_in import BuiltInCatalogue
from shared.catalogue.port import (
    Catalogue,
    CatalogueReader,
    DatasetFacts,
    FeedRequest,
    FeedResult,
    NewFile,
    Replica,
)

__all__ = [
    "BuiltInCatalogue",
    "Catalogue",
    "CatalogueReader",
    "DatasetFacts",
    "FeedRequest",
    "FeedResult",
    "NewFile",
    "Replica",
]
