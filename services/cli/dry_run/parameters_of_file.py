"""The runtime parameters of a world file."""

from __future__ import annotations

from typing import Any

from shared.config.parameters import Parameters
from shared.config.typed import typed
from shared.model.world_file import WorldFile


def parameters_of(file: WorldFile) -> Parameters:
    """What is set in the file.

    Raises ValueError that names the parameter whose value does not fit its type.
    """
    parameters = Parameters()
    for row in file.parameters:
        try:
            value: Any = typed(row.value, row.type)
        except ValueError as error:
            raise ValueError(f"parameters: {row.component}.{row.key}: {error}") from None
        parameters.set_for_test(row.component, row.key, value, app=row.app, vo=row.vo or None)
    return parameters
