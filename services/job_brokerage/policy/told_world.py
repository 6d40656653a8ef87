"""What of a world is told to production of some VOs: no names, quotas and parameters of others. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Protocol, TypeVar

from shared.auth import Caller
from shared.auth.access import PRODUCTION, Whose
from shared.config.told import is_told
from shared.model.world_file import JobsCounted, WorldFile

#: for the VOs that are not the caller's; no VO is called so
OTHER_VOS = "*"


class OfVo(Protocol):
    """A part of a world that may be a VO's."""

    @property
    def vo(self) -> str | None:
        """Whose it is; None or "": nobody's."""


P = TypeVar("P", bound=OfVo)


def told_world(world: WorldFile, people: Mapping[str, bool], caller: Caller) -> WorldFile:
    """Leave out what names people besides `people`, and what belongs to VOs of others.

    `people`: by name whether they submit themselves: what is known of them for all VOs is told of these alone.
    Numbers stay as they are, so that decisions on tasks of the caller's VOs do, too.
    """
    parameters = [one for one in world.parameters if is_told(caller, one.component, one.key, one.vo)]
    return world.model_copy(
        update={
            "statistics": _without_names(world.statistics, people, caller),
            "user_usage": {name: usage for name, usage in world.user_usage.items() if people.get(name)},
            "user_usage_of_vos": _of_vos(world.user_usage_of_vos, caller),
            "user_groups": _of_vos(world.user_groups, caller),
            "group_corrections": _of_vos(world.group_corrections, caller),
            "task_queues": _of_vos(world.task_queues, caller),
            "parameters": parameters,
        }
    )


def _of_vos(parts: Iterable[P], caller: Caller) -> list[P]:
    return [one for one in parts if not one.vo or PRODUCTION.allows(caller, Whose.of(None, one.vo))]


def _without_names(counted: Iterable[JobsCounted], people: Container[str], caller: Caller) -> list[JobsCounted]:
    """Jobs of others are counted together, under no name; of all other VOs as of one."""
    found: dict[JobsCounted, tuple[int, int]] = {}
    for one in counted:
        is_own = caller.is_of(one.vo)
        name = one.user_name if is_own and one.user_name in people else ""
        vo = one.vo if is_own else OTHER_VOS
        key = one.model_copy(update={"user_name": name, "vo": vo, "n_jobs": 0, "n_cores": 0})
        n_jobs, n_cores = found.get(key, (0, 0))
        found[key] = (n_jobs + one.n_jobs, n_cores + one.n_cores)
    return [key.model_copy(update={"n_jobs": jobs, "n_cores": cores}) for key, (jobs, cores) in found.items()]
