"""Places that a submitted task names: where it is to run, and where its outputs go."""

from __future__ import annotations

import asyncpg

from services.task_definition.tasks.policy.output_places import places_of_outputs, unknown_places
from services.task_definition.tasks.policy.task_spec import TaskSpec
from shared.model.names import WILDCARD
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem
from shared.snapshot import KnownGrid


async def problems_of_places(connection: asyncpg.Connection, known: KnownGrid, spec: TaskSpec) -> list[FieldProblem]:
    """List sites, queues and nuclei that are not of the grid, if one is loaded."""
    given = spec.parameters
    named = [("site", name.strip()) for name in (given.site or "").split(",") if name.strip()]
    named += [("includedSite", name) for name in given.included_site or ()]
    named += [("excludedSite", name) for name in given.excluded_site or () if WILDCARD not in name]
    nucleus = [("nucleus", given.nucleus)] if given.nucleus else []
    wanted = places_of_outputs(spec)
    if not named and not nucleus and not wanted:
        return []
    grid = await known.grid(connection)
    found = [
        problem(field, name, "allowed: a site or queue of the grid")
        for field, name in named
        if not grid.has_place(name)
    ]
    found += [
        problem(field, name, "allowed: a nucleus of the grid") for field, name in nucleus if not grid.has_nucleus(name)
    ]
    return found + (unknown_places(grid, wanted) if grid.sites else [])
