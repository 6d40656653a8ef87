"""Whether a queue has the software and hardware a task needs.

Source: PanDA brokerage, Release/cache availability check.

Queues with ANY in `releases` take everything. Queues with AUTO are judged by what they publish in the software map.
Others list the releases they have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Any

from shared.model.architecture import ANY, Architecture, CpuSpec, GpuSpec, parse_architecture
from shared.model.expression import parse_expression
from shared.model.queue import Queue
from shared.model.software import ALL_QUEUES, QueueSoftware
from shared.task.in_effect import SplitRules

EVERYTHING, AUTOMATIC = "ANY", "AUTO"
ATLAS, NIGHTLIES = "atlas", "nightlies"
CVMFS = "/cvmfs"
EXCLUSIVE = "excl"
_NIGHTLY = re.compile(r"rel_\d+")
_LEGACY_HOME = "AnalysisTransforms"


class Lack(IntEnum):
    """The first thing that a queue does not have."""

    NOTHING = 0
    CPU = 1
    GPU = 2
    CONTAINER = 3
    RELEASE = 4


@dataclass(frozen=True)
class SoftwareNeeds:
    """`project` and `release` as in AthSimulation and 23.0.53; `only_tags`: onlyTagsForFC."""

    architecture: Architecture = field(default_factory=Architecture)
    project: str = ""
    release: str = ""
    nightly: bool = False
    container: str = ""
    only_tags: bool = False

    @property
    def asks_for_hardware(self) -> bool:
        """Whether the task itself names a CPU or GPU."""
        return self.architecture.gpu_spec is not None or (
            bool(self.architecture.cpu_specs) and not self.architecture.cpu_implied
        )

    @property
    def asks_for_software(self) -> bool:
        return bool(self.project or self.release or self.nightly or self.architecture.sw_platform)


def software_of_task(row: Mapping[str, Any], rules: SplitRules) -> SoftwareNeeds:
    """The needs of a task's row: architecture, trans_home (or trans_uses), container_name, onlyTagsForFC.

    Raises InvalidArchitecture.
    """
    home = str(row.get("trans_home") or row.get("trans_uses") or "")
    if home.startswith(_LEGACY_HOME):
        home = home.removeprefix(_LEGACY_HOME).lstrip("-").replace("_", "-", 1)
    project, _, release = home.partition("-")
    return SoftwareNeeds(
        architecture=parse_architecture(row.get("architecture")),
        project=project,
        release=release,
        nightly=_NIGHTLY.search(home) is not None,
        container=str(row.get("container_name") or ""),
        only_tags=rules.only_tags_for_fc,
    )


def lack_of(queue: Queue, software: Mapping[str, QueueSoftware], needs: SoftwareNeeds) -> Lack:
    """The first thing the queue does not have: CPU, GPU, container, release."""
    if EVERYTHING in queue.releases:
        return Lack.NOTHING
    published = software.get(queue.name)
    if AUTOMATIC not in queue.releases or published is None:
        return _lack_of_unpublished(queue, needs)
    kinds = {str(one.get("type", "")): one for one in published.architectures}
    if not _has_cpu(kinds.get("cpu"), needs):
        return Lack.CPU
    if not _has_gpu(kinds.get("gpu"), needs.architecture.gpu_spec):
        return Lack.GPU
    if needs.container:
        return Lack.NOTHING if _has_container(published, software.get(ALL_QUEUES), needs) else Lack.CONTAINER
    if needs.asks_for_software and not _has_release(published, needs):
        return Lack.RELEASE
    return Lack.NOTHING


def _lack_of_unpublished(queue: Queue, needs: SoftwareNeeds) -> Lack:
    """A queue that only lists releases (or was to publish and did not): hardware and containers cannot be judged."""
    if needs.asks_for_hardware:
        return Lack.CPU if needs.architecture.gpu_spec is None else Lack.GPU
    if needs.container:
        return Lack.CONTAINER
    if not needs.asks_for_software:
        return Lack.NOTHING
    names = {needs.release, f"{needs.project}-{needs.release}"} if needs.release else {needs.project}
    return Lack.NOTHING if names & set(queue.releases) else Lack.RELEASE


def _strings(described: Mapping[str, Any], attribute: str) -> list[str]:
    value = described.get(attribute)
    return [str(one) for one in value] if isinstance(value, list) else [] if value is None else [str(value)]


def _is_exclusive(described: Mapping[str, Any] | None) -> bool:
    """Whether the queue takes only work that asks for some attribute of this hardware."""
    return described is not None and any(EXCLUSIVE in value for value in described.values() if isinstance(value, list))


def _accepts(described: Mapping[str, Any], attribute: str, wanted: str, *, expression: bool = False) -> bool:
    """['blah'] takes 'blah' and work that does not say; with 'excl' only 'blah'; 'any' or '' takes everything."""
    values = _strings(described, attribute)
    if wanted == ANY:
        return EXCLUSIVE not in values
    if "any" in values or "" in values or wanted in values:
        return True
    if not expression:
        return False
    pattern = parse_expression(wanted)
    return any(pattern.matches_all_of(value) for value in values if value != EXCLUSIVE)


def _has_cpu(described: Mapping[str, Any] | None, needs: SoftwareNeeds) -> bool:
    specs, implied = needs.architecture.cpu_specs, needs.architecture.cpu_implied
    if not specs:
        return not _is_exclusive(described)
    if described is None:
        return implied
    return any(_cpu_matches(described, spec, implied=implied) for spec in specs)


def _cpu_matches(described: Mapping[str, Any], spec: CpuSpec, *, implied: bool) -> bool:
    if implied and "arch" not in described:
        return _accepts(described, "vendor", ANY) and _accepts(described, "instr", ANY)
    return (
        _accepts(described, "arch", spec.arch, expression=True)
        and _accepts(described, "vendor", spec.vendor)
        and _accepts(described, "instr", spec.instr)
    )


def _has_gpu(described: Mapping[str, Any] | None, spec: GpuSpec | None) -> bool:
    if spec is None:
        return not _is_exclusive(described)
    if described is None or not _accepts(described, "vendor", spec.vendor):
        return False
    models = _strings(described, "model")
    if spec.model_excluded:
        pattern = parse_expression(spec.model)
        return any(not pattern.matches_all_of(one) for one in models if one != EXCLUSIVE)
    return _accepts(described, "model", spec.model, expression=True) and all(
        _fulfils(_strings(described, attribute), bound) for attribute, bound in spec.requirements
    )


def _fulfils(published: Sequence[str], bound: str) -> bool:
    """Whether one published value is within a bound; a queue that does not publish the attribute is not judged."""
    if not published:
        return True
    sign = re.match(r">=|<=|==|!=|>|<", bound)
    if sign is None:
        return any(one in bound.split("|") for one in published)
    wanted = _version(bound[sign.end() :])
    compare = {
        ">=": lambda one: one >= wanted, "<=": lambda one: one <= wanted, "==": lambda one: one == wanted,
        "!=": lambda one: one != wanted, ">": lambda one: one > wanted, "<": lambda one: one < wanted,
    }[sign.group()]  # fmt: skip
    return any(compare(_version(one)) for one in published)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def _has_container(published: QueueSoftware, everywhere: QueueSoftware | None, needs: SoftwareNeeds) -> bool:
    """By tag or source; else, unless only tags count, by `any`, /cvmfs, the prefix of the name or of its sources."""
    name = needs.container
    if any(name == tag.container_name or name in tag.sources for tag in published.tags):
        return True
    if needs.only_tags:
        return False
    if "any" in published.containers or CVMFS in published.containers:
        return True
    sources = [
        source
        for tag in (everywhere.tags if everywhere else ())
        if tag.container_name == name
        for source in tag.sources
    ]
    return any(one.startswith(prefix) for prefix in published.containers for one in (name, *sources))


def _has_release(published: QueueSoftware, needs: SoftwareNeeds) -> bool:
    """By cvmfs together with a container or the platform; else by a tag of platform, project and release."""
    return bool(_platforms_with_release(published, needs))


def _platforms_with_release(published: QueueSoftware, needs: SoftwareNeeds) -> tuple[str, ...]:
    """The platforms at which the queue has the release; the task's own where the queue needs none to be named.

    The document resolves an expression among `cmtconfigs` and asks tags for an equal platform. Taken: where containers
    are from cvmfs no platform is asked for, and an expression that is none of the queue's stays as it is; a tag counts
    if its platform is the task's own or one of those that the expression became; a release without sw_platform is in no
    list, so that only a container or a tag without a platform has it.
    """
    wanted = needs.architecture.sw_platform
    known = _platforms_among(wanted, tuple(published.cmtconfigs)) if wanted else ()
    tag_of_cvmfs = NIGHTLIES if needs.nightly else ATLAS
    named = bool(needs.project or needs.release or needs.nightly)
    if not named or "any" in published.cvmfs or tag_of_cvmfs in published.cvmfs:
        if "any" in published.containers or CVMFS in published.containers:
            return known or (wanted,)
        if known:
            return known
    if needs.architecture.base_platform and "any" not in published.containers:
        return ()
    release = (needs.project, needs.release)
    tagged = {tag.cmtconfig or "" for tag in published.tags if (tag.project, tag.release) == release}
    return tuple(one for one in known or (wanted,) if one in tagged)


@lru_cache(maxsize=65536)
def _platforms_among(platform: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """The platform itself if it is known, otherwise those that it matches as an expression, in their order."""
    if platform in known:
        return (platform,)
    pattern = parse_expression(platform)
    return tuple(one for one in known if pattern.matches_all_of(one))


def resolve_platform(published: QueueSoftware | None, needs: SoftwareNeeds) -> str | None:
    """The queue's platform for a regular expression, with the base platform; None: nothing to resolve.

    The first of those at which the queue has the release.
    """
    architecture = needs.architecture
    if published is None or not architecture.sw_platform:
        return None
    known = _platforms_among(architecture.sw_platform, tuple(published.cmtconfigs))
    there = [one for one in _platforms_with_release(published, needs) if one in known] or known
    if not there or there[0] == architecture.sw_platform:
        return None
    return f"{there[0]}@{architecture.base_platform}" if architecture.base_platform else there[0]
