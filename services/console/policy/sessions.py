"""Who signed in, until when, and where somebody goes on after signing in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import urlsplit

ROOT = "/console"
HOME = f"{ROOT}/"
#: longer tokens have no room in a cookie, of which browsers keep 4096 bytes
MOST_TOKEN_CHARACTERS = 2600
#: of each token there are two, and there is room in the cookie for those of so many renewals
MOST_MARKS = 2 * 12
#: a longer address is not gone back to
MOST_PATH_CHARACTERS = 1000


@dataclass(frozen=True)
class Session:
    """One person at one browser, in the texts of `system/get_attributes`; `until` since the epoch."""

    session_id: str
    token: str
    name: str
    roles: str
    vos: str
    rights: str
    until: float

    @property
    def is_operator(self) -> bool:
        """Whether the visitor has the role operator."""
        return "operator" in self.roles.split(",")

    def is_over(self, now: float) -> bool:
        """Whether one has to sign in again."""
        return now >= self.until

    def content(self) -> dict[str, Any]:
        """What is sealed."""
        return asdict(self)

    @classmethod
    def of(cls, content: Mapping[str, Any] | None) -> Session | None:
        """What was sealed; None where it is nothing, or of another version."""
        try:
            return None if content is None else cls(**content)
        except TypeError:
            return None


@dataclass(frozen=True)
class Kept:
    """What renews a session; times in seconds since the epoch.

    `subject`: as the issuer names the person; `issued_at`: of the ID token that the person signed in with; `ends`: then
    one signs in again. `marks`: of the ID tokens that were given since somebody signed in, the first and the newest.
    """

    session_id: str
    subject: str
    refresh_token: str
    issued_at: float
    ends: float
    marks: Sequence[str] = ()

    def followed_by(self, refresh_token: str, marks: Sequence[str]) -> Kept:
        """The same after a renewal; `marks`: of the ID token that it gave."""
        first, newest = self.marks[:2], [*self.marks[2:], *marks][-MOST_MARKS:]
        return replace(self, refresh_token=refresh_token or self.refresh_token, marks=[*first, *newest])

    def content(self) -> dict[str, Any]:
        """What is sealed."""
        return asdict(self)

    @classmethod
    def of(cls, content: Mapping[str, Any] | None) -> Kept | None:
        """What was sealed; None where it is nothing, or of another version."""
        try:
            return None if content is None else cls(**content)
        except TypeError:
            return None


def path_after(wanted: str | None) -> str:
    """Where to go on: an address of the console; home for whatever leads elsewhere.

    Example: /console/tasks/7/why stays, https://elsewhere and //elsewhere/console/ become /console/.
    """
    text = wanted or ""
    if len(text) > MOST_PATH_CHARACTERS or any(one in text for one in "\\\r\n\t\x00"):
        return HOME
    parts = urlsplit(text)
    is_ours = not parts.scheme and not parts.netloc and (parts.path == ROOT or parts.path.startswith(HOME))
    if not is_ours or ".." in parts.path.split("/") or parts.path.startswith(f"{HOME}sign-"):
        return HOME
    return parts._replace(fragment="").geturl()
