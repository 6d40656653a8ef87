"""Chooses a task's share and resource type (PanDA: Global Shares)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.task_definition.tasks.policy.task_spec import TaskSpec
from shared.model.expression import parse_expression
from shared.model.problems import FieldProblem
from shared.model.resource_types import ResourceType, resource_type_of
from shared.model.task_spec_problems import problem
from shared.model.units import parse_ram

UNDEFINED = "Undefined"


@dataclass(frozen=True)
class ShareNode:
    """One node of the tree, in order of position; None for an expression means that it is not asked."""

    name: str
    parent: str | None = None
    expressions: Mapping[str, str | None] | None = None


def resource_type_for(spec: TaskSpec, known: Sequence[ResourceType]) -> str:
    """The class of work of its jobs, by cores and memory."""
    return resource_type_of_row(spec.columns(), known)


def resource_type_of_row(row: Mapping[str, Any], known: Sequence[ResourceType]) -> str:
    """The same of a row of `tasks`, which has what was measured since."""
    ram = parse_ram(row["ram_count"], row["ram_unit"])
    return resource_type_of(row["core_count"], ram.mb, ram.per_core, row["base_ram_count"] or 0, known)


def share_for(spec: TaskSpec, resource_type: str, nodes: Sequence[ShareNode]) -> str | None:
    """The share written in the task if it is a leaf; else the first leaf whose expressions all match.

    An expression matches from the start of a value.

    None: no leaf matches. Without any shares every task is in one called Undefined.
    """
    if not nodes:
        return UNDEFINED
    leaves = _leaves(nodes)
    wanted = spec.parameters.gshare
    if wanted is not None:
        return wanted if any(leaf.name == wanted for leaf in leaves) else None
    facts = _facts(spec, resource_type)
    for leaf in leaves:
        if all(_matches(expression, facts[key]) for key, expression in (leaf.expressions or {}).items()):
            return leaf.name
    return None


def unknown_share(name: str, nodes: Sequence[ShareNode]) -> list[FieldProblem]:
    """What is wrong with the name of a share in a task; empty: nothing, or there are no shares."""
    if not nodes or any(leaf.name == name for leaf in _leaves(nodes)):
        return []
    return [problem("gshare", name, "allowed: a leaf of the shares")]


def _leaves(nodes: Sequence[ShareNode]) -> list[ShareNode]:
    parents = {node.parent for node in nodes}
    return [node for node in nodes if node.name not in parents]


def _facts(spec: TaskSpec, resource_type: str) -> dict[str, str]:
    given = spec.parameters
    return {
        "prod_source_label": given.prod_source_label,
        "working_group": given.working_group or " ",
        "campaign": given.campaign or "",
        "processing_type": given.processing_type or "",
        "trans_path": given.trans_path or "",
        "resource_type": resource_type,
        "vo": given.vo,
    }


def _matches(expression: str | None, value: str) -> bool:
    return expression is None or parse_expression(expression).matches_start_of(value)
