"""Sites that advertise themselves (SAM-Grid): both ClassAds may have Requirements, which must hold.

They are asked three times, always of the same facts (`JobFacts`) and only where there is an advertisement: when queues
are ranked, when jobs are created, when a pilot asks for one. A match is a job created for the site: CurMatches starts
at CurrentJobs and grows by one with each of them; an advertisement sets it back. When a pilot asks nothing is counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import classad2
import orjson

from shared.brokerage.requirements_text import problem_of

NATIVE, FORWARDING = "native", "forwarding"
#: A site advertises every five minutes; one that does not is no longer believed.
ADVERTISED_EVERY = timedelta(minutes=5)
#: requests for memory are rounded up to this, so that few kinds of jobs exist
RAM_STEP_MB = 100
LONGEST_TEXT = 300
#: what an attribute of a ClassAd may be
VALUES = "text, true, false or a number, a whole one from -2^63 to 2^63 - 1"
#: of a task that states no label
DEFAULT_LABEL = "managed"
#: of an advertisement: each expression may ask for each of them, again and again
MOST_ATTRIBUTES, LONGEST_ATTRIBUTE = 100, 500
_ACCEPTS_MORE_JOBS = "(CurMatches < MaxJobs)"
_ACCEPTS_MORE_SUBMISSIONS = "((JobsMatchedSinceLastAdvertisement + CurrentSubmittingJobs) < MaxSubmittingJobs)"


@dataclass(frozen=True)
class Advert:
    """What a site said of itself; `attributes`: station, entry point, monitor, kind, and other statements."""

    site: str
    max_jobs: int | None = None
    max_submitting_jobs: int | None = None
    current_jobs: int = 0
    current_submitting_jobs: int = 0
    current_matches: int = 0
    requirements: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    expires_at: datetime | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Advert:
        """Of a row of `site_adverts` or of a world file."""
        return cls(
            row["site"],
            row["max_jobs"],
            row["max_submitting_jobs"],
            row["current_jobs"] or 0,
            row["current_submitting_jobs"] or 0,
            row["current_matches"],
            row["requirements"],
            dict(row["advertisement"] or {}),
            row.get("expires_at"),
        )

    @property
    def station(self) -> str:
        return str(self.attributes.get("Station") or "")


class RefusedRequirements(ValueError):
    """An expression that cannot be used; `reason` says why and what is allowed."""

    def __init__(self, requirements: str, reason: str) -> None:
        super().__init__(f"requirements: {shortened(requirements)!r}: {reason}")
        self.reason = reason


def shortened(text: str) -> str:
    """The beginning of a long text."""
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."


def parsed(requirements: str) -> Any:
    """A Requirements expression, whose cost is bounded. Raises RefusedRequirements."""
    problem = problem_of(requirements)
    if problem is not None:
        raise RefusedRequirements(requirements, problem)
    try:
        return classad2.ExprTree(requirements)
    except Exception as error:
        raise RefusedRequirements(requirements, f"not a ClassAd expression: {error}") from None


def requirements_in(text: str | None) -> str:
    """The task's own expression about sites. Raises ValueError if it cannot be read."""
    if text:
        parsed(text)
    return text or ""


def requirements_of(advert: Advert) -> str:
    """The site's own expression; without one, its limits as the document has them."""
    if advert.requirements:
        return advert.requirements
    terms = [_ACCEPTS_MORE_JOBS] if advert.max_jobs is not None else []
    terms += [_ACCEPTS_MORE_SUBMISSIONS] if advert.max_submitting_jobs is not None else []
    return " && ".join(terms) or "true"


def site_ad(advert: Advert) -> Any:
    """The ClassAd of a site. Raises ValueError naming what of its advertisement cannot be read."""
    known = {
        "Name": advert.site, "MaxJobs": advert.max_jobs, "MaxSubmittingJobs": advert.max_submitting_jobs,
        "CurrentJobs": advert.current_jobs, "CurrentSubmittingJobs": advert.current_submitting_jobs,
        "CurMatches": advert.current_matches,
        "JobsMatchedSinceLastAdvertisement": advert.current_matches - advert.current_jobs,
    }  # fmt: skip
    stated = {key: value for key, value in advert.attributes.items() if value is not None}
    _not_too_much(stated)
    ad = _ad_of({**stated, **{key: value for key, value in known.items() if value is not None}})
    ad["Requirements"] = parsed(requirements_of(advert))
    return ad


def unreadable(advert: Advert) -> str | None:
    """Why no ClassAd can be made of an advertisement; None if one can."""
    try:
        site_ad(advert)
    except ValueError as error:
        return str(error)
    return None


def _not_too_much(attributes: Mapping[str, Any]) -> None:
    if len(attributes) > MOST_ATTRIBUTES:
        raise ValueError(f"{len(attributes)} attributes are not allowed; allowed: at most {MOST_ATTRIBUTES}")
    for name, value in attributes.items():
        if len(str(value)) > LONGEST_ATTRIBUTE:
            allowed = f"at most {LONGEST_ATTRIBUTE} characters"
            raise ValueError(f"attribute {name}: {len(str(value))} characters are not allowed; allowed: {allowed}")


def _ad_of(attributes: Mapping[str, Any]) -> Any:
    """A ClassAd; ValueError for all that the library cannot take.

    The library raises errors of any kind, and crashes at text that is not Unicode.
    """
    ad = classad2.ClassAd()
    for name, value in attributes.items():
        try:
            orjson.dumps([name, value])
            ad[name] = value
        except Exception as error:
            raise ValueError(f"attribute {name}: value {value!r}: allowed: {VALUES} ({error})") from None
    return ad


@dataclass(frozen=True)
class JobFacts:
    """What Requirements of sites may ask of one job, and its task's own expression about sites.

    `priority` is the task's: that scouts and merge jobs are served first is not the site's affair. `ram_mb` is what the
    whole job asks for with its `core_count` cores: jobs of one task differ by queue and after they ran out of memory.
    """

    task_id: int
    owner: str
    priority: int
    core_count: int
    ram_mb: int
    label: str = DEFAULT_LABEL
    vo: str = ""
    processing_type: str = ""
    working_group: str = ""
    gshare: str = ""
    requirements: str = ""

    @classmethod
    def of(cls, row: Mapping[str, Any], *, core_count: int, ram_mb: int) -> JobFacts:
        """Of a task's row with its `requirements`, for one of its jobs."""
        return cls(
            row["task_id"],
            row["user_name"],
            row["current_priority"],
            core_count,
            ram_mb,
            row["prod_source_label"] or DEFAULT_LABEL,
            row["vo"] or "",
            row["processing_type"] or "",
            row["working_group"] or "",
            row["gshare"] or "",
            row["requirements"] or "",
        )


def requested_ram_mb(needed_mb: float, most_mb: float) -> int:
    """The memory that a job asks its pilot for: `needed_mb` rounded up to 100 MB.

    It is not over the `most_mb` of the queue (0: no limit) unless more is needed.
    """
    rounded = math.ceil(needed_mb / RAM_STEP_MB) * RAM_STEP_MB if needed_mb > 0 else 0
    return rounded if not most_mb or needed_mb > most_mb else min(rounded, int(most_mb))


def job_ad(job: JobFacts) -> Any:
    """The ClassAd of a job; what its task does not state is undefined.

    Raises ValueError for an unreadable expression.

    `RequestMemory` is in MB for all `RequestCpus` together.
    """
    stated = {
        "Owner": job.owner, "TaskId": job.task_id, "VO": job.vo, "ProdSourceLabel": job.label,
        "ProcessingType": job.processing_type, "WorkingGroup": job.working_group, "GShare": job.gshare,
        "RequestCpus": job.core_count, "RequestMemory": job.ram_mb, "JobPrio": job.priority,
    }  # fmt: skip
    ad = _ad_of({name: value for name, value in stated.items() if value != ""})
    ad["Requirements"] = parsed(job.requirements or "true")
    return ad


@dataclass(frozen=True)
class Mismatch:
    """Why site and job do not match. `whose` Requirements do not hold: site or task."""

    whose: str
    reason: str


def refusal(advert: Advert, job: JobFacts) -> Mismatch | None:
    """Whose Requirements do not hold, and why; None if both do.

    One that is undefined or an error does not hold.
    """
    try:
        site = site_ad(advert)
    except ValueError as error:
        return Mismatch("site", f"the advertisement of site {advert.site} cannot be read: {error}")
    try:
        other = job_ad(job)
    except ValueError as error:
        return Mismatch("task", str(error))
    if not _holds(other.matches, site):
        return Mismatch("site", f"site {advert.site} asks for {_in_words(site, other)}")
    if not _holds(site.matches, other):
        return Mismatch("task", f"the task asks for {_in_words(other, site)}")
    return None


def _holds(asked: Callable[[Any], bool], other: Any) -> bool:
    """What the library has no answer for does not hold; it raises errors of any kind."""
    try:
        return bool(asked(other))
    except Exception:
        return False


def _in_words(ad: Any, target: Any) -> str:
    """An ad's Requirements with the values they were asked of: its own first, then the other's."""
    expression = ad.lookup("Requirements")
    values: dict[str, Any] = {}
    try:
        names = sorted({*ad.internalRefs(expression), *ad.externalRefs(expression)})
    except ValueError:  # an expression that asks for itself
        names = []
    for scoped in names:
        scope, _, name = scoped.rpartition(".")
        first, then = (target, ad) if scope.upper() == "TARGET" else (ad, target)
        if name:
            values[name] = first.get(name, then.get(name))
    told = ", ".join(f"{name} {'not stated' if value is None else value}" for name, value in values.items())
    return shortened(" ".join(str(expression).split())) + (f" ({told})" if told else "")


def matches(advert: Advert, job: JobFacts) -> bool:
    """Both Requirements hold."""
    return refusal(advert, job) is None


def accepted(advert: Advert, jobs: Sequence[JobFacts]) -> list[bool]:
    """Which of these jobs the site takes, in their order; each is counted before the next is asked.

    A job exactly like one that was refused is refused: counting more never opens a site again. With an expression that
    cannot be read none is taken.
    """
    try:
        site, ads = site_ad(advert), {job: job_ad(job) for job in set(jobs)}
    except ValueError:
        return [False] * len(jobs)
    taken, refused, answers = 0, set[JobFacts](), []
    for job in jobs:
        site["CurMatches"] = advert.current_matches + taken
        site["JobsMatchedSinceLastAdvertisement"] = advert.current_matches + taken - advert.current_jobs
        fits = job not in refused and _holds(site.symmetricMatch, ads[job])
        if fits:
            taken += 1
        else:
            refused.add(job)
        answers.append(fits)
    return answers


def at_dispatch(advert: Advert) -> Advert:
    """The advertisement as it is asked when a pilot wants a job: CurMatches is CurrentJobs.

    The matches since the advertisement are the jobs that wait to be handed out. They were counted when they were
    created; counted against themselves, MaxJobs = CurMatches would keep back the very jobs that were matched, and jobs
    matched under an earlier advertisement would wait behind those that came later, for ever. So the limits ask what
    the site said of itself: a site that said it was full gets nothing until it advertises again; any other gets
    whichever of its matched jobs comes first. What this reads changes only with an advertisement.
    """
    return replace(advert, current_matches=advert.current_jobs)


def by_site(adverts: Sequence[Advert]) -> dict[str, Advert]:
    """Adverts by the site they name."""
    return {one.site: one for one in adverts}
