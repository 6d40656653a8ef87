"""Which service answers which path: the locations in the configuration of the containers' gateway."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from shared.web.document import list_of_documents, path_of_document

GATEWAY_FILE = Path(__file__).resolve().parents[1] / "docker" / "gateway.conf"
_TARGET = re.compile(r"set \$(\w+) (\S+);")
_LOCATION = re.compile(r"location (= )?(/\S*) {\s*proxy_pass \$(\w+);[^}]*}")


@dataclass(frozen=True)
class Location:
    """A `location` and the address that it hands requests to; `exact`: with the sign `=`."""

    path: str
    exact: bool
    target: str

    @property
    def service(self) -> str:
        """`job-dispatch` of http://job-dispatch:8080."""
        return urlsplit(self.target).hostname or ""

    def takes(self, path: str) -> bool:
        return path == self.path if self.exact else path.startswith(self.path)


def read_locations(text: str) -> list[Location]:
    """Every location that hands its requests to a service."""
    targets = dict(_TARGET.findall(text))
    return [Location(path, bool(exact), targets[name]) for exact, path, name in _LOCATION.findall(text)]


def location_of(path: str, locations: Sequence[Location]) -> Location | None:
    """As nginx chooses: an exact location, else the longest prefix."""
    fitting = [one for one in locations if one.takes(path)]
    return max(fitting, key=lambda one: (one.exact, len(one.path)), default=None)


def documents_of(locations: Sequence[Location]) -> dict[str, Any]:
    """What /openapi.json answers: where the document of each service is."""
    return list_of_documents(one.service for one in locations if one.path == path_of_document(one.service))
