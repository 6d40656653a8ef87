"""SAM-Grid resource brokering, sentence by sentence, through the whole decision with its explanation."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from services.cli.dry_run.document import Exclusion
from services.job_brokerage.policy.production import ProductionJobBrokerage
from shared.brokerage.matchmaking import FORWARDING, NATIVE, Advert
from tests.unit.brokerage.parts import explanation
from tests.unit.brokerage.worlds import NOW, a_queue, a_request, a_world

SITES = ("A", "B", "C")


def decided(*adverts: Advert, seed: int = 1, **request: Any) -> Any:
    world = a_world([a_queue(f"Q_{site}", site) for site in SITES])
    return ProductionJobBrokerage().decide(world, a_request(site_adverts=adverts, **request), seed)


def told(advert: Advert, **request: Any) -> Exclusion | None:
    """Why the queue of site A is left out."""
    return explanation(decided(advert, **request), "Q_A")


def said(check: str, tier: str, found: str, wanted: str, *, temporary: bool = True) -> Exclusion:
    lifts = ["an advertisement"] if check in ("station", "station_drawn") else ["an advertisement", "time"]
    return Exclusion(name="Q_A", check=check, tier=tier, temporary=temporary, found=found, wanted=wanted, lifts=lifts)


def at_station(site: str, station: str, **changes: Any) -> Advert:
    return Advert(site, attributes={"Station": station}, **changes)


def test_jobs_are_submitted_while_cur_matches_is_less_than_max_jobs() -> None:
    """CurMatches: running jobs and those submitted since; equal to MaxJobs is enough to stop."""
    advert = Advert("A", max_jobs=10, current_jobs=4, current_matches=10)
    assert told(advert) == said(
        "advertisement", "capacity", "jobs matched with the site 10 jobs", "less than MaxJobs 10 jobs"
    )
    assert told(replace(advert, current_matches=9)) is None


def test_jobs_are_submitted_while_submitting_and_newly_matched_jobs_are_less_than_max_submitting_jobs() -> None:
    """JobsMatchedSinceLastAdvertisement = 7 - 4 = 3, CurrentSubmittingJobs = 2: 5 are equal to the limit."""
    advert = Advert(
        "A", max_jobs=100, max_submitting_jobs=5, current_jobs=4, current_submitting_jobs=2, current_matches=7
    )
    assert told(advert) == said(
        "advertised_submitting",
        "capacity",
        "jobs submitting or matched since the advertisement 5 jobs",
        "less than MaxSubmittingJobs 5 jobs",
    )
    assert told(replace(advert, current_matches=6)) is None
    assert told(replace(advert, current_submitting_jobs=1)) is None


def test_the_simplest_requirements_of_a_site_compare_current_jobs_with_max_jobs() -> None:
    advert = Advert("A", max_jobs=10, current_jobs=10, current_matches=10, requirements="CurrentJobs < MaxJobs")
    assert told(advert) is not None
    assert told(replace(advert, current_jobs=9, current_matches=99)) is None, (
        "a site's own expression is all that counts"
    )


@pytest.mark.parametrize(
    ("of_site", "of_job", "matched"),
    [("true", "true", True), ("false", "true", False), ("true", "false", False), ("false", "false", False)],
)
def test_if_either_requirement_evaluates_to_false_the_match_fails(of_site, of_job, matched) -> None:
    found = told(Advert("A", requirements=of_site), requirements=of_job)
    assert (found is None) is matched
    if found:
        whose = "site A asks for false" if of_site == "false" else "the task asks for false"
        assert found == said("requirements", "policy", f"refused, as {whose}", "Requirements of site and job must hold")


def test_each_refusal_says_which_expression_did_not_hold_with_which_values() -> None:
    asks = "TARGET.RequestCpus > Least"
    adverts = [Advert(site, requirements=asks, attributes={"Least": least}) for site, least in (("A", 4), ("B", 8))]
    decision = decided(*adverts, Advert("C"), requirements="CurMatches > 0")
    why = {site: explanation(decision, f"Q_{site}") for site in SITES}
    assert [one and one.found for one in why.values()] == [
        "refused, as site A asks for TARGET.RequestCpus > Least (Least 4, RequestCpus 1)",
        "refused, as site B asks for TARGET.RequestCpus > Least (Least 8, RequestCpus 1)",
        "refused, as the task asks for CurMatches > 0 (CurMatches 0)",
    ]


def test_classads_are_sets_of_attributes_that_requirements_of_the_other_side_may_name() -> None:
    advert = Advert("A", requirements='TARGET.Owner == "alice"', attributes={"Station": "sam-a"})
    assert told(advert, user_name="alice", requirements='TARGET.Station == "sam-a"') is None
    assert told(advert, user_name="bob", requirements='TARGET.Station == "sam-a"') is not None
    assert told(advert, user_name="alice", requirements='TARGET.Station == "sam-b"') is not None


def test_the_limit_of_each_site_is_its_own() -> None:
    decision = decided(Advert("A", max_jobs=5, current_matches=5), Advert("B", max_jobs=6, current_matches=5))
    assert set(decision.chosen) == {"Q_B", "Q_C"}


@pytest.mark.parametrize("kind", [NATIVE, FORWARDING])
def test_a_forwarding_node_is_selected_just_as_a_native_site(kind) -> None:
    stated = {"Kind": kind, "EntryPoint": "gram://a/jobmanager", "Station": "sam-a", "Monitor": "http://a/xmldb"}
    advert = Advert("A", max_jobs=5, current_matches=4, attributes=stated)
    assert decided(advert).chosen == decided().chosen
    assert told(replace(advert, current_matches=5)) is not None


def test_a_single_station_selects_its_site() -> None:
    adverts = [at_station(site, f"sam-{site}") for site in SITES]
    for site in SITES:
        assert decided(*adverts, stations=(f"sam-{site}",)).chosen == (f"Q_{site}",)


def test_one_of_the_sites_that_advertise_a_station_of_the_users_list_is_selected_at_random() -> None:
    adverts = [at_station("A", "sam-1"), at_station("B", "sam-1"), at_station("C", "sam-2")]
    drawn = [decided(*adverts, seed=seed, stations=("sam-1",)) for seed in range(400)]
    assert {one.chosen for one in drawn} == {("Q_A",), ("Q_B",)}
    assert 150 < sum(one.chosen == ("Q_A",) for one in drawn) < 250, "each of two sites half of the time"
    not_drawn = next(one for one in drawn if one.chosen == ("Q_B",))
    assert explanation(not_drawn, "Q_A") == said(
        "station_drawn", "policy", "the station that was drawn no", "must be yes"
    )
    unnamed = said("station", "policy", "station of the site sam-2", "one of the task's list: sam-1")
    assert explanation(not_drawn, "Q_C") == unnamed.model_copy(update={"name": "Q_C"})


def test_a_site_that_accepts_no_more_jobs_is_not_drawn() -> None:
    adverts = [at_station("A", "sam-1", max_jobs=3, current_matches=3), at_station("B", "sam-1")]
    assert {decided(*adverts, seed=seed, stations=("sam-1",)).chosen for seed in range(40)} == {("Q_B",)}


def test_if_no_site_has_a_station_of_the_list_the_task_waits() -> None:
    decision = decided(at_station("A", "sam-1"), stations=("sam-9",))
    assert decision.chosen == () and decision.retry_at is not None
    assert decision.summary()["checks"] == {"station": 3}
    said_of_b = explanation(decision, "Q_B")
    assert said_of_b is not None and said_of_b.found == "station of the site none advertised"


def test_a_task_whose_stations_nobody_advertises_is_tried_when_an_advertisement_may_have_come() -> None:
    """Sites advertise every five minutes."""
    soon, in_an_hour = NOW + timedelta(minutes=5), NOW + timedelta(hours=1)
    assert decided(stations=("sam-9",)).retry_at == soon
    assert decided(at_station("A", "sam-1"), stations=("sam-9", "sam-8")).retry_at == soon
    nothing_else = {"excluded": ("Q_A", "Q_B", "Q_C")}
    assert decided(at_station("A", "sam-1"), stations=("sam-9",), **nothing_else).retry_at == in_an_hour
    assert decided(at_station("A", "sam-9"), stations=("sam-9",), excluded=("Q_A",)).retry_at == in_an_hour


def test_work_that_only_an_advertisement_keeps_back_is_tried_when_the_site_will_have_advertised_again() -> None:
    soon, later = NOW + timedelta(minutes=2), NOW + timedelta(minutes=4)
    full = [Advert(site, max_jobs=1, current_jobs=1, current_matches=1, expires_at=later) for site in SITES]
    assert decided(*full).retry_at == later
    assert decided(full[0], full[1], replace(full[2], expires_at=soon)).retry_at == soon
    assert decided(*full[:2]).retry_at is None, "the third site takes it"
    assert decided(*full[:2], excluded=("Q_C",)).retry_at == later
    willing = replace(full[0], max_jobs=None, expires_at=soon)
    assert decided(willing, excluded=("Q_A", "Q_B", "Q_C")).retry_at == NOW + timedelta(hours=1)
