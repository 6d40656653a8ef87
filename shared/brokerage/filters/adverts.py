"""Advertisements of sites, asked last and only where there is one; lists of stations, one of them drawn (SAM-Grid)."""

from __future__ import annotations

import numpy as np

from shared.brokerage.check import Check, Mask, Tier, Verdict
from shared.brokerage.draw import uniform_of, weighted_choice
from shared.brokerage.matchmaking import Advert, by_site, job_ad, matches
from shared.brokerage.pipeline import Exclusions
from shared.brokerage.request import JobRequest
from shared.brokerage.world import World

YES_NO = ("no", "yes")
STATION = Check(700, "station", Tier.POLICY, False, "advertises a station of the task's list", "must", words=YES_NO)
ADVERT = Check(701, "advertisement", Tier.CAPACITY, True, "jobs matched with the site", "Requirements, MaxJobs", "jobs")
DRAWN = Check(702, "station_drawn", Tier.POLICY, True, "the station that was drawn", "must be", words=YES_NO)


def match_sites(world: World, request: JobRequest, exclusions: Exclusions, seed: int) -> None:
    """Leave out sites whose Requirements or the job's do not hold; with a list of stations, all but one drawn site."""
    if not request.site_adverts and not request.stations:
        return
    adverts, columns = by_site(request.site_adverts), world.columns
    job = ad_of(request)
    refused = {site for site, advert in adverts.items() if not matches(advert, job)}
    if request.stations:
        named = {site for site, advert in adverts.items() if advert.station in request.stations}
        exclusions.judge(STATION, Verdict(_rows_at(world, named), 0.0, 1.0))
    _exclude_refused(world, exclusions, {site: adverts[site] for site in refused})
    if request.stations and exclusions.alive.any():
        left = {columns.sites[index]: 1.0 for index in np.unique(columns.site_index[exclusions.alive])}
        drawn = weighted_choice(left, uniform_of(seed))
        exclusions.judge(DRAWN, Verdict(_rows_at(world, {drawn or ""}), 0.0, 1.0))


def ad_of(request: JobRequest) -> object:
    """What Requirements of sites may ask of a job."""
    needs = request.needs
    attributes = {
        "Owner": request.user_name, "TaskId": request.task_id, "VO": request.vo, "ProdSourceLabel": request.label,
        "ProcessingType": request.processing_type, "WorkingGroup": request.working_group, "GShare": request.gshare,
        "RequestCpus": needs.core_count, "RequestMemory": needs.ram_mb, "JobPrio": request.priority,
    }  # fmt: skip
    return job_ad(attributes, request.requirements)


def _rows_at(world: World, sites: set[str]) -> Mask:
    names = np.array([site in sites for site in world.columns.sites], bool)
    return names[world.columns.site_index] if len(names) else np.zeros(0, bool)


def _exclude_refused(world: World, exclusions: Exclusions, refused: dict[str, Advert]) -> None:
    for site, advert in sorted(refused.items()):
        wanted = float("nan") if advert.max_jobs is None else float(advert.max_jobs)
        exclusions.judge(ADVERT, Verdict(~_rows_at(world, {site}), float(advert.current_matches), wanted))
