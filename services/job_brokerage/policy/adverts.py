"""Applies advertisements of sites and draws one station of a list (SAM-Grid).

Advertisements are asked last, and only where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from shared.brokerage.check import YES_NO, Check, Mask, Tier, Verdict
from shared.brokerage.draw import uniform_of, weighted_choice
from shared.brokerage.estimates import ram_mb
from shared.brokerage.filters.capability import cores_of_jobs
from shared.brokerage.matchmaking import (
    ADVERTISED_EVERY,
    DEFAULT_LABEL,
    Advert,
    JobFacts,
    by_site,
    refusal,
    requested_ram_mb,
    unreadable,
)
from shared.brokerage.pipeline import Exclusions
from shared.brokerage.request import JobRequest
from shared.brokerage.world import World

# In a decision the words are the task's list, and the stations that sites advertise.
STATION = Check(700, "station", Tier.POLICY, True, "station of the site", "one of the task's list:")
ADVERT = Check(701, "advertisement", Tier.CAPACITY, True, "jobs matched with the site", "less than MaxJobs", "jobs")
DRAWN = Check(702, "station_drawn", Tier.POLICY, True, "the station that was drawn", "must be", words=YES_NO)
SUBMITTING = Check(
    703,
    "advertised_submitting",
    Tier.CAPACITY,
    True,
    "jobs submitting or matched since the advertisement",
    "less than MaxSubmittingJobs",
    "jobs",
)
UNREADABLE = Check(
    705,
    "advertisement_readable",
    Tier.POLICY,
    True,
    "a ClassAd can be made of the advertisement",
    "must be",
    words=YES_NO,
)
# In a decision the words go on with the refusals.
REQUIREMENTS = Check(
    704, "requirements", Tier.POLICY, True, "refused, as", "Requirements of site and job must", words=("hold",)
)
NO_STATION = "none advertised"


def match_sites(world: World, request: JobRequest, exclusions: Exclusions, seed: int) -> datetime | None:
    """Leave out queues of sites whose Requirements or the job's do not hold.

    With a list of stations, all but one drawn site are left out, too. Returns, where a site refused, when the first of
    these will have advertised again, or is not believed any more; where nobody advertises a station of the list, when
    somebody may.
    """
    if not request.site_adverts and not request.stations:
        return None
    adverts, columns = by_site(request.site_adverts), world.columns
    if request.stations:
        named = {site for site, advert in adverts.items() if advert.station in request.stations}
        could_be_drawn = exclusions.alive.any()
        exclusions.judge(STATION, _at_a_station(world, request.stations, adverts, named))
        if not named:
            return request.now + ADVERTISED_EVERY if could_be_drawn else None
    refused = [advert for _, advert in sorted(adverts.items()) if _refuses(world, request, exclusions, advert)]
    if request.stations and exclusions.alive.any():
        left = {columns.sites[index]: 1.0 for index in np.unique(columns.site_index[exclusions.alive])}
        drawn = weighted_choice(left, uniform_of(seed))
        exclusions.judge(DRAWN, Verdict(_rows_at(world, {drawn or ""}), 0.0, 1.0))
    return min((advert.expires_at for advert in refused if advert.expires_at is not None), default=None)


def _at_a_station(world: World, stations: Sequence[str], adverts: Mapping[str, Advert], named: set[str]) -> Verdict:
    """Queues of the sites that advertise one of these stations (`named`), and what the others advertise."""
    by_place = [adverts[site].station or NO_STATION if site in adverts else NO_STATION for site in world.columns.sites]
    words = (", ".join(stations), *sorted(set(by_place)))
    place = {text: number for number, text in enumerate(words[1:], start=1)}
    found = np.array([place[station] for station in by_place], np.int64)[world.columns.site_index]
    return Verdict(_rows_at(world, named), found, 0.0, words)


def _refuses(world: World, request: JobRequest, exclusions: Exclusions, advert: Advert) -> bool:
    """One site. Its queues differ in what the job would ask of them: each kind of job is asked about once."""
    rows = np.flatnonzero(_rows_at(world, {advert.site}) & exclusions.alive)
    if not len(rows):
        return False
    # Refusals by row: the places of their reasons among the words, which are those of all sites so far.
    words = list(exclusions.checks.get(REQUIREMENTS.code, REQUIREMENTS).words)
    refusals = np.zeros(len(world.columns), np.int64)
    known: dict[JobFacts, int] = {}
    for row, job in zip(rows, jobs_at(world, request, rows), strict=True):
        if job not in known:
            why = refusal(advert, job)
            known[job] = 0 if why is None else len(words)
            words += [] if why is None else [why.reason]
        refusals[row] = known[job]
    exclusions.judge(*_why(advert, refusals, tuple(words)))
    return bool(refusals.any())


def _why(advert: Advert, refusals: NDArray[np.int64], words: tuple[str, ...]) -> tuple[Check, Verdict]:
    """The limit that the site has reached, with its numbers; if it has reached none, other Requirements do not hold."""
    passes = refusals == 0
    if unreadable(advert) is not None:
        return UNREADABLE, Verdict(passes, 0.0, 1.0)
    submitting = advert.current_matches - advert.current_jobs + advert.current_submitting_jobs
    if advert.max_jobs is not None and advert.current_matches >= advert.max_jobs:
        return ADVERT, Verdict(passes, float(advert.current_matches), float(advert.max_jobs))
    if advert.max_submitting_jobs is not None and submitting >= advert.max_submitting_jobs:
        return SUBMITTING, Verdict(passes, float(submitting), float(advert.max_submitting_jobs))
    return REQUIREMENTS, Verdict(passes, refusals, 0.0, words)


def jobs_at(world: World, request: JobRequest, rows: NDArray[np.int64]) -> list[JobFacts]:
    """What Requirements may ask of a job at each of these rows, as far as it is known before it is made.

    Files that were given more memory after a failure are not looked at: job generation asks again for each job.
    """
    columns, needs = world.columns, request.needs
    cores = cores_of_jobs(world, request)[rows]
    if needs.core_count == 1:
        cores = np.ones_like(cores)
    needed_mb, most_mb = ram_mb(needs, cores, is_merge=request.is_merge), columns.max_rss_mb[rows]
    return [
        JobFacts(
            request.task_id,
            request.user_name,
            request.priority,
            int(cores[place]),
            requested_ram_mb(float(needed_mb[place]), float(most_mb[place])),
            request.label or DEFAULT_LABEL,
            request.vo,
            request.processing_type,
            request.working_group,
            request.gshare,
            request.requirements,
        )
        for place in range(len(rows))
    ]


def _rows_at(world: World, sites: set[str]) -> Mask:
    names = np.array([site in sites for site in world.columns.sites], bool)
    return names[world.columns.site_index] if len(names) else np.zeros(0, bool)
