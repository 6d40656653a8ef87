"""Sites that advertise themselves (SAM-Grid): site and job are ClassAds, each may have Requirements, both must hold.

CurMatches starts at CurrentJobs and grows by one with every job created for the site; an advertisement sets it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import classad2

NATIVE, FORWARDING = "native", "forwarding"
_ACCEPTS_MORE_JOBS = "(CurMatches < MaxJobs)"
_ACCEPTS_MORE_SUBMISSIONS = "((JobsMatchedSinceLastAdvertisement + CurrentSubmittingJobs) < MaxSubmittingJobs)"


@dataclass(frozen=True)
class Advert:
    """What a site said of itself; `attributes`: station, entry point, monitor, kind, and whatever else it stated."""

    site: str
    max_jobs: int | None = None
    max_submitting_jobs: int | None = None
    current_jobs: int = 0
    current_submitting_jobs: int = 0
    current_matches: int = 0
    requirements: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Advert:
        """Of a row of `site_adverts` or of a world file."""
        return cls(
            row["site"], row["max_jobs"], row["max_submitting_jobs"], row["current_jobs"] or 0,
            row["current_submitting_jobs"] or 0, row["current_matches"], row["requirements"],
            dict(row["advertisement"] or {}),
        )  # fmt: skip

    @property
    def station(self) -> str:
        return str(self.attributes.get("Station") or "")


def parsed(requirements: str) -> Any:
    """A Requirements expression. Raises ValueError saying what is wrong."""
    try:
        return classad2.ExprTree(requirements)
    except Exception as error:
        raise ValueError(f"requirements: {requirements!r} is not a ClassAd expression: {error}") from None


def requirements_in(rules: Mapping[str, Any]) -> str:
    """The task's own expression about sites. Raises ValueError if it cannot be read."""
    text = str(rules.get("requirements") or "")
    if text:
        parsed(text)
    return text


def requirements_of(advert: Advert) -> str:
    """The site's own expression; without one, its limits as the document has them."""
    if advert.requirements:
        return advert.requirements
    terms = [_ACCEPTS_MORE_JOBS] if advert.max_jobs is not None else []
    terms += [_ACCEPTS_MORE_SUBMISSIONS] if advert.max_submitting_jobs is not None else []
    return " && ".join(terms) or "true"


def site_ad(advert: Advert) -> Any:
    """The ClassAd of a site."""
    known = {
        "Name": advert.site, "MaxJobs": advert.max_jobs, "MaxSubmittingJobs": advert.max_submitting_jobs,
        "CurrentJobs": advert.current_jobs, "CurrentSubmittingJobs": advert.current_submitting_jobs,
        "CurMatches": advert.current_matches,
        "JobsMatchedSinceLastAdvertisement": advert.current_matches - advert.current_jobs,
    }  # fmt: skip
    stated = {key: value for key, value in advert.attributes.items() if value is not None}
    ad = classad2.ClassAd({**stated, **{key: value for key, value in known.items() if value is not None}})
    ad["Requirements"] = parsed(requirements_of(advert))
    return ad


def job_ad(attributes: Mapping[str, Any], requirements: str = "") -> Any:
    """The ClassAd of a job."""
    ad = classad2.ClassAd({key: value for key, value in attributes.items() if value is not None})
    ad["Requirements"] = parsed(requirements or "true")
    return ad


def matches(advert: Advert, job: Any) -> bool:
    """Both Requirements hold; one that is undefined or an error does not."""
    try:
        return bool(site_ad(advert).symmetricMatch(job))
    except ValueError:
        return False


def room(advert: Advert, job: Any, wanted: int) -> int:
    """How many of `wanted` jobs the site takes, each counted before the next is asked."""
    taken = 0
    while taken < wanted and matches(replace(advert, current_matches=advert.current_matches + taken), job):
        taken += 1
    return taken


def by_site(adverts: Sequence[Advert]) -> dict[str, Advert]:
    """Adverts by the site they name."""
    return {one.site: one for one in adverts}
