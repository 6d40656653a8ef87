"""A whole grid read from files: it is valid, or refused with every problem listed.

Files of a grid folder: `queues.json` (CRIC form), `sites.json`, `storages.json`, `network_metrics.json[.gz]` (the
dump of the network weather service), `software_map.json`, `resource_types.json`, `shares.json`; only the first three
must be there.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import orjson

from shared.model.link import Link, link_from_dump, shift_to_now
from shared.model.names import matching
from shared.model.problems import InvalidGrid, Problem
from shared.model.queue import Queue, queue_from_cric
from shared.model.resource_types import DEFAULT_RESOURCE_TYPES, ResourceType
from shared.model.share import Share, shares_from_list
from shared.model.site import Site, site_from_cric
from shared.model.software import ALL_QUEUES, QueueSoftware, software_from_map
from shared.model.steps import Steps, at_once
from shared.model.storage import Storage, storage_from_cric

T = TypeVar("T")
FILES = ("queues", "sites", "storages", "network_metrics", "software_map", "resource_types", "shares")
REQUIRED = ("queues", "sites", "storages")
_LIST_KEYS = {"queues": "siteid", "sites": "name", "storages": "ddm_endpoint_name"}


@dataclass(frozen=True)
class Grid:
    """Everything brokerage knows about the world that does not change with each job; `Grid.of` makes one."""

    queues: Mapping[str, Queue]
    sites: Mapping[str, Site]
    storages: Mapping[str, Storage]
    links: Mapping[tuple[str, str], Link] = field(default_factory=dict)
    software: Mapping[str, QueueSoftware] = field(default_factory=dict)
    resource_types: tuple[ResourceType, ...] = DEFAULT_RESOURCE_TYPES
    shares: tuple[Share, ...] = ()

    @classmethod
    def of(
        cls, queues: Mapping[str, Queue], sites: Mapping[str, Site], storages: Mapping[str, Storage], **more: Any
    ) -> Grid:
        """A grid whose queues name only storages that it has, and know what their site offers beside those."""
        return at_once(cls.of_in_steps(queues, sites, storages, **more))

    @classmethod
    def of_in_steps(
        cls, queues: Mapping[str, Queue], sites: Mapping[str, Site], storages: Mapping[str, Storage], **more: Any
    ) -> Steps[Grid]:
        """The same, a queue in each step."""
        grid, known = cls(queues, sites, storages, **more), dict[str, Queue]()
        for name, queue in queues.items():
            yield
            known[name] = grid._with_storages(queue)
        return replace(grid, queues=known)

    def has_place(self, name: str) -> bool:
        """Whether it is the name of a site or a queue; any name is, before a grid is loaded."""
        return not self.sites or bool(matching(name, (*self.sites, *self.queues)))

    def has_nucleus(self, name: str) -> bool:
        """Whether it is the name of a nucleus; any name is, before a grid is loaded."""
        return not self.sites or (name in self.sites and self.sites[name].is_nucleus)

    @cached_property
    def disks_of_site(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the storages of each site that are not tape, sorted."""
        found: dict[str, list[str]] = {}
        for name, storage in sorted(self.storages.items()):
            if not storage.is_tape:
                found.setdefault(storage.site, []).append(name)
        return {site: tuple(names) for site, names in found.items()}

    @cached_property
    def queues_of_site(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the queues of each site, sorted."""
        found: dict[str, list[str]] = {}
        for name, queue in sorted(self.queues.items()):
            found.setdefault(queue.site, []).append(name)
        return {site: tuple(names) for site, names in found.items()}

    def _with_storages(self, queue: Queue) -> Queue:
        site = self.sites.get(queue.site)
        default = (site.default_storage,) if site is not None else ()
        return replace(
            queue,
            site_storages=self._known((*default, *self.disks_of_site.get(queue.site, ()))),
            read_storages=self._known(queue.read_storages),
            write_storages=self._known(queue.write_storages),
            analysis_read_storages=self._known(queue.analysis_read_storages),
            analysis_write_storages=self._known(queue.analysis_write_storages),
        )

    def _known(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in dict.fromkeys(names) if name in self.storages)


def forget_grid(grid: Grid) -> Steps[None]:
    """Free the links, which are many; nothing may use the grid any more."""
    links = grid.links
    while isinstance(links, dict) and links:
        yield
        links.popitem()


QueueCheck = Callable[[Queue], Iterable[Problem]]


def parse_grid(files: Mapping[str, Any], *, now: datetime | None = None, checks: Iterable[QueueCheck] = ()) -> Grid:
    """Check and build a grid from decoded files (by name without extension).

    `now`: shift measurement times so that the newest is now; None keeps them. `checks`: further rules for each queue,
    such as the syntax of its zero-share policy. Raises InvalidGrid with every problem found.
    """
    return at_once(grid_in_steps(files, now=now, checks=checks))


def grid_in_steps(
    files: Mapping[str, Any], *, now: datetime | None = None, checks: Iterable[QueueCheck] = ()
) -> Steps[Grid]:
    """The same, a record of a file in each step: a full grid takes a good part of a second."""
    problems = [
        Problem(f"{name}.json", "", "", "is missing; a grid needs it") for name in REQUIRED if name not in files
    ]
    problems += [
        Problem(str(name), "", "", f"is not a file of a grid; allowed: {', '.join(FILES)}")
        for name in files
        if name not in FILES
    ]
    queues = yield from _read(files, "queues", queue_from_cric, problems)
    sites = yield from _read(files, "sites", site_from_cric, problems)
    storages = yield from _read(files, "storages", storage_from_cric, problems)
    links = yield from _values((yield from _read(files, "network_metrics", link_from_dump, problems)))
    software = yield from _read(files, "software_map", software_from_map, problems)
    types = _resource_types(files.get("resource_types"), problems)
    shares = shares_from_list(files.get("shares"), problems)
    if all(name in files for name in REQUIRED):
        listed = {name: _listed(files, name) for name in REQUIRED}
        yield from _collect(_dangling(queues, sites, storages, software, listed), problems)
    for check in checks:
        for queue in queues.values():
            yield
            problems += check(queue)
    if problems:
        raise InvalidGrid(problems)
    if now is not None:
        yield from shift_to_now(links, now)
    by_pair = {}
    links.reverse()
    while links:
        yield
        link = links.pop()
        by_pair[link.source, link.destination] = link
    more = {"links": by_pair, "software": software, "resource_types": types, "shares": shares}
    return (yield from Grid.of_in_steps(queues, sites, storages, **more))


def _collect(found: Iterable[Problem | None], problems: list[Problem]) -> Steps[None]:
    """The problems of a check that also tells where it may rest (None)."""
    for one in found:
        if one is None:
            yield
        else:
            problems.append(one)


def records_of(files: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The raw records of one file that was found valid, by key."""
    content = files.get(name) or {}
    return {one[_LIST_KEYS[name]]: one for one in content} if isinstance(content, list) else dict(content)


def _read(
    files: Mapping[str, Any],
    name: str,
    parse: Callable[[str, Any, str], T | list[Problem]],
    problems: list[Problem],
) -> Steps[dict[str, T]]:
    """Every record of one file, by its key; problems are added to the list."""
    file, content = f"{name}.json", files.get(name)
    found: dict[str, T] = {}
    pairs: Iterable[tuple[str, Any]]
    if content is None:
        return found
    if isinstance(content, list) and name in _LIST_KEYS:
        pairs = _keyed(content, _LIST_KEYS[name])
    elif isinstance(content, Mapping):
        pairs = content.items()
    else:
        problems.append(Problem(file, "", "", "must be an object of records by name"))
        return found
    for key, record in pairs:
        yield
        if not isinstance(record, Mapping):
            problems.append(Problem(file, key, "", "is not an object"))
            continue
        parsed = parse(key, record, file)
        if isinstance(parsed, list):
            problems.extend(parsed)
        elif key in found:
            problems.append(Problem(file, key, "", "is listed twice"))
        else:
            found[key] = parsed
    return found


def _values(found: dict[str, T]) -> Steps[list[T]]:
    """The values alone; a large dict is emptied before it is freed, which is done in one go."""
    values = list(found.values())
    while found:
        yield
        found.popitem()
    return values


def _keyed(records: Iterable[Any], key: str) -> Iterator[tuple[str, Any]]:
    """The records of a list with their keys; what is no record has none."""
    for one in records:
        yield (str(one.get(key, "")) if isinstance(one, Mapping) else ""), one


def _listed(files: Mapping[str, Any], name: str) -> set[str]:
    """Every name in one file, also of records that are malformed."""
    content = files.get(name)
    if isinstance(content, list) and name in _LIST_KEYS:
        return {str(one.get(_LIST_KEYS[name], "")) for one in content if isinstance(one, Mapping)}
    return {str(key) for key in content} if isinstance(content, Mapping) else set()


def _dangling(
    queues: Mapping[str, Queue],
    sites: Mapping[str, Site],
    storages: Mapping[str, Storage],
    software: Mapping[str, QueueSoftware],
    listed: Mapping[str, set[str]],
) -> Iterable[Problem | None]:
    """Names that point nowhere; `listed` are all names of each file, also of refused records."""
    # a queue of a site without storage is allowed: brokerage gives it as a reason
    for queue in queues.values():
        yield None
        if queue.site not in listed["sites"]:
            yield Problem("queues.json", queue.name, "atlas_site", f"site {queue.site!r} is not in sites.json")
        named = {
            *queue.read_storages,
            *queue.write_storages,
            *queue.analysis_read_storages,
            *queue.analysis_write_storages,
        }
        for endpoint in sorted(named - listed["storages"]):
            yield Problem("queues.json", queue.name, "astorages", f"storage {endpoint!r} is not in storages.json")
    for storage in storages.values():
        yield None
        if storage.site not in listed["sites"]:
            yield Problem("storages.json", storage.name, "site_name", f"site {storage.site!r} is not in sites.json")
        if storage.space_free_gb > storage.space_total_gb:
            reason = f"{storage.space_free_gb:g} GB is more than space_total {storage.space_total_gb:g} GB"
            yield Problem("storages.json", storage.name, "space_free", reason)
    for site in sites.values():
        yield None
        if site.default_storage and site.default_storage not in listed["storages"]:
            yield Problem(
                "sites.json", site.name, "default_ddm_endpoint", f"{site.default_storage!r} is not in storages.json"
            )
    for name in sorted(software.keys() - listed["queues"] - {ALL_QUEUES}):
        yield Problem("software_map.json", name, "", "is not a queue of queues.json")


def _resource_types(content: Any, problems: list[Problem]) -> tuple[ResourceType, ...]:
    """A list of {resource_name, mincore, maxcore, minrampercore, maxrampercore}; the first match counts."""
    if content is None:
        return DEFAULT_RESOURCE_TYPES
    file, found = "resource_types.json", list[ResourceType]()
    if not isinstance(content, list):
        problems.append(Problem(file, "", "", "must be a list"))
        return ()
    for index, record in enumerate(content):
        key = str(record.get("resource_name", index)) if isinstance(record, Mapping) else str(index)
        if not isinstance(record, Mapping) or not isinstance(record.get("resource_name"), str) or not key:
            problems.append(Problem(file, key, "resource_name", "must be a name"))
            continue
        values = []
        for field_name in ("mincore", "maxcore", "minrampercore", "maxrampercore"):
            value = record.get(field_name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                problems.append(
                    Problem(file, key, field_name, f"{value!r} is not a whole number of zero or more, or null")
                )
                value = None
            values.append(value)
        found.append(ResourceType(key, *values))
    return tuple(found)


def read_grid_folder(folder: Path) -> dict[str, Any]:
    """Decode the files of a grid folder, plain or gzipped; InvalidGrid names a file that is not JSON."""
    files: dict[str, Any] = {}
    problems = []
    for name in FILES:
        for path in (folder / f"{name}.json", folder / f"{name}.json.gz"):
            if not path.exists():
                continue
            try:
                content = path.read_bytes()
                files[name] = orjson.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
            except (orjson.JSONDecodeError, OSError, EOFError) as error:
                problems.append(Problem(path.name, "", "", f"cannot be read: {error}"))
            break
    if problems:
        raise InvalidGrid(problems)
    return files
