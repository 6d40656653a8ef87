"""Datasets, containers and replicas.

Two sides. Inside a transaction everybody reads, and task_definition writes, schema `catalogue` in PostgreSQL (`port`,
`built_in`): it is the built-in catalogue, and the cache of those outside. Apart from transactions a catalogue is a
source, a registrar and a mover of data (`outside`); the built-in one is that too (`built_in_outside`).

Only task_definition writes; other services read. Names are stored without scope and without the slash
that marks a container (`shared.model.names.bare_name`), as `task_datasets.dataset_name` has them.

A complete replica is one row of `dataset_replicas` with `complete`; only incomplete copies have rows in
`file_replicas`. Freezing a dataset turns replicas that have all its files into complete ones; reopening it turns them
back, so that the rule stays true while files are added.
"""

from shared.catalogue.built_in import BuiltInCatalogue
from shared.catalogue.built_in_outside import BuiltInOutside
from shared.catalogue.port import (
    Catalogue,
    CatalogueReader,
    DatasetFacts,
    NewFile,
    Replica,
)

__all__ = [
    "BuiltInCatalogue",
    "BuiltInOutside",
    "Catalogue",
    "CatalogueReader",
    "DatasetFacts",
    "NewFile",
    "Replica",
]
