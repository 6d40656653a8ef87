"""Finds where the log of a job is, and fetches it from there."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from services.cli.failures import CommandFailure, Refused, RejectedField, WrongUsage

#: of one file in a log that is shown
MOST_SHOWN_BYTES = 16 * 2**20
#: schemes that a program of the person's has to fetch, and how it is called
BY_OTHERS = {"root": "xrdcp", "xroot": "xrdcp", "srm": "gfal-copy", "gsiftp": "gfal-copy"}
OF_HTTP = {"http": "http", "https": "https", "dav": "http", "davs": "https"}


@dataclass(frozen=True)
class JobLog:
    """The file with the log of a job, and its addresses as far as they are known, the likeliest first."""

    scope: str
    name: str
    storages: Sequence[str]
    urls: Sequence[str]


def log_of(described: Mapping[str, Any], endpoints: Mapping[str, Any]) -> JobLog | None:
    """Where the log is, by the job's report, its specification and the grid's storages; None: it has none."""
    spec, report = described.get("spec") or {}, described.get("report") or {}
    name = spec.get("logFile")
    if not name or name == "NULL":
        return None
    told = (report.get("outputs") or {}).get(name) or {}
    asked = dict(zip(_listed(spec.get("outFiles")), _listed(spec.get("ddmEndPointOut")), strict=False)).get(name)
    storages = list(dict.fromkeys(one for one in (told.get("endpoint"), asked) if one and one != "NULL"))
    scope = str(spec.get("scopeLog") or "")
    derived = (url for one in storages for url in urls_at(endpoints.get(one) or {}, scope, name))
    known = [prefix for one in storages for prefix in _prefixes(endpoints.get(one) or {})]
    reported = [told["surl"]] if _may_be_read(str(told.get("surl") or ""), known) else []
    return JobLog(scope, name, storages, list(dict.fromkeys([*reported, *derived])))


def _may_be_read(url: str, prefixes: Sequence[str]) -> bool:
    """Whether an address that a pilot reported is one to ask: never a file of this machine outside the storages."""
    return urlsplit(url).scheme in {*OF_HTTP, *BY_OTHERS} or (url.startswith(tuple(prefixes)) and ".." not in url)


def _prefixes(endpoint: Mapping[str, Any]) -> list[str]:
    """Where addresses of a storage begin."""
    protocols = (endpoint.get("arprotocols") or {}).get("read_wan") or ()
    return [
        f"{one['endpoint'].rstrip('/')}/{str(one.get('path', '')).strip('/')}/"
        for one in protocols
        if one.get("endpoint")
    ]


def urls_at(endpoint: Mapping[str, Any], scope: str, name: str) -> Iterator[str]:
    """Addresses of a file at a storage that derives them from its name (Rucio: deterministic storages)."""
    if endpoint.get("is_deterministic") is False:
        return
    digest = hashlib.md5(f"{scope}:{name}".encode(errors="replace"), usedforsecurity=False).hexdigest()
    below = "/".join([*filter(None, scope.split(".")), digest[:2], digest[2:4], name])
    yield from (f"{prefix}{below}" for prefix in _prefixes(endpoint))


def fetch(log: JobLog, folder: Path) -> Path:
    """The log in `folder`, from the first address that has it.

    Raises Refused with every reason and what would help.
    """
    target, reasons = folder / Path(log.name).name, list[RejectedField]()
    for url in log.urls:
        try:
            _fetched(url, target)
        except (OSError, CommandFailure) as error:
            said = error.message if isinstance(error, CommandFailure) else error.strerror or str(error)
            reasons.append(RejectedField(url, "", said))
        else:
            return target
    if not log.urls:
        where = f"it was to go to {', '.join(log.storages)}" if log.storages else "its pilot named no storage"
        reasons.append(RejectedField("", "", f"no address of it is known; {where}"))
    if log.scope:
        reasons.append(RejectedField("", "", f"where Rucio knows it: rucio download {log.scope}:{log.name}"))
    raise Refused(f"the log {log.name} cannot be fetched from here", reasons)


def members_of(archive: Path) -> list[tuple[str, int]]:
    """Names and sizes of the files in a log. Raises Refused for what is no archive."""
    with _opened(archive) as opened:
        return [(one.name, one.size) for one in opened.getmembers() if one.isfile()]


def text_of(archive: Path, name: str) -> str:
    """The end of one file of a log, by its whole name or the end of it.

    Raises WrongUsage naming those there are.
    """
    with _opened(archive) as opened:
        files = [one for one in opened.getmembers() if one.isfile()]
        found = next((one for one in files if one.name == name or one.name.endswith(f"/{name}")), None)
        content = opened.extractfile(found) if found is not None else None
        if found is None or content is None:
            raise WrongUsage(f"FILE: value {name!r}: the log has {', '.join(one.name for one in files) or 'none'}")
        content.seek(max(0, found.size - MOST_SHOWN_BYTES))
        return content.read(MOST_SHOWN_BYTES).decode(errors="replace")


def _opened(archive: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(archive)
    except (OSError, tarfile.TarError) as error:
        raise Refused(f"{archive}: is no archive that can be read: {error}") from None


def _fetched(url: str, target: Path) -> None:
    """Copy what is at an address. Raises OSError, Refused."""
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        if parts.hostname not in (None, "localhost"):
            raise Refused(f"it is a file of {parts.hostname}")
        shutil.copyfile(parts.path, target)
    elif parts.scheme in OF_HTTP:
        _downloaded(parts._replace(scheme=OF_HTTP[parts.scheme]).geturl(), target)
    else:
        program = BY_OTHERS.get(parts.scheme, "a program that reads it")
        raise Refused(f"{program} fetches it")


def _downloaded(url: str, target: Path) -> None:
    """Without the token of the system: it is none of the storage's."""
    import httpx

    from services.cli.device_flow import outside

    with outside() as http, http.stream("GET", url, follow_redirects=True) as answer:
        if not answer.is_success:
            raise Refused(f"status {answer.status_code}: the storage may want a certificate or token of yours")
        with target.open("wb") as file:
            try:
                file.writelines(answer.iter_bytes())
            except httpx.HTTPError as error:
                raise Refused(f"it broke off: {error}") from None


def _listed(text: Any) -> Iterable[str]:
    return [one.strip() for one in str(text or "").split(",")]
