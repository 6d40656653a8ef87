"""Remembers where somebody logged in, and as whom: one file of theirs, which nobody else may read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from services.cli.failures import WrongUsage


@dataclass(frozen=True)
class SystemLogin:
    """A token for one system; the rest where its issuer renews it.

    `expires_at` in seconds since the epoch, 0 where the token does not say.
    """

    token: str
    expires_at: float = 0.0
    refresh_token: str = ""
    token_endpoint: str = ""
    client_id: str = ""
    client_secret: str = ""

    @property
    def renews(self) -> bool:
        return bool(self.refresh_token and self.token_endpoint)


@dataclass(frozen=True)
class Logins:
    """By address, and the address of the last one."""

    of: Mapping[str, SystemLogin] = field(default_factory=dict)
    last: str | None = None

    def with_login(self, url: str, login: SystemLogin) -> Logins:
        """After somebody logged in at `url`."""
        return Logins({**self.of, url: login}, url)

    def renewed(self, url: str, login: SystemLogin) -> Logins:
        """With another token for the same system; the last login stays the last."""
        return replace(self, of={**self.of, url: login})

    def without(self, url: str) -> Logins:
        """After somebody logged out at `url`."""
        rest = {other: login for other, login in self.of.items() if other != url}
        return Logins(rest, self.last if self.last in rest else None)


def logins_file() -> Path:
    """`orrery/logins.json` where the person's settings are (XDG base directories)."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(home) / "orrery" / "logins.json"


def read_logins() -> Logins:
    """Nothing where nobody logged in. Raises WrongUsage for a file that is something else."""
    path = logins_file()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Logins({str(url): SystemLogin(**one) for url, one in content["logins"].items()}, content["last"])
    except OSError:
        return Logins()
    except (ValueError, TypeError, KeyError, AttributeError):
        raise WrongUsage(f"{path}: is not what `orrery login` wrote; delete it and log in again") from None


def write_logins(logins: Logins) -> None:
    """Readable by the person only, from its first byte on. Raises WrongUsage where it cannot be written."""
    path = logins_file()
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    content = {"last": logins.last, "logins": {url: asdict(one) for url, one in logins.of.items()}}
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(content, file, indent=1)
        temporary.replace(path)
    except OSError as error:
        raise WrongUsage(f"{path}: cannot be written: {error.strerror}") from None
